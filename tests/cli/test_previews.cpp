#include <gtest/gtest.h>

#include <filesystem>

#include "actors/artefacts/png.h"
#include "tests/cli/program.h"

namespace troupe::test {
namespace {

actors::Image decoded(const TempFolder& folder, const std::string& name) {
  const std::string file = folder.read(name);
  return actors::decode_png(name, std::as_bytes(std::span(file)));
}

std::vector<std::string> previewed(const TempFolder& folder,
                                   const std::string& name,
                                   std::vector<std::string> more = {}) {
  more.insert(more.end(), {"-n", "3", "--preview-every", "1", "-o",
                           folder.path("out"), "--preview", folder.path(name)});
  return tiny_sample(more);
}

TEST(Previews, ShowEachSampleInItsOwnFile) {
  const TempFolder folder;
  const Outcome outcome = run(previewed(folder, "p-{index}.png"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(folder.names(),
            (std::vector<std::string>{"out", "p-0.png", "p-1.png", "p-2.png"}));
  for (int i = 0; i < 3; ++i) {
    const actors::Image preview =
        decoded(folder, "p-" + std::to_string(i) + ".png");
    EXPECT_EQ(preview.kind, actors::PictureKind::preview);
    EXPECT_EQ(preview.recipe, "");
    // A finished sample's preview is its picture.
    EXPECT_EQ(preview.rgb,
              decoded(folder, "out/0000" + std::to_string(i) + ".png").rgb);
  }
}

TEST(Previews, ShowTheSamplesThatAreAskedFor) {
  const TempFolder folder;
  const Outcome outcome =
      run(previewed(folder, "p-{index:03}.png", {"--preview-samples", "1:9"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(folder.names(),
            (std::vector<std::string>{"out", "p-001.png", "p-002.png"}));
  const Outcome none =
      run(previewed(folder, "q-{index}.png", {"--preview-samples", "5:9"}));
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_NE(none.err.find("[--preview-samples] none of this job's samples"),
            std::string::npos)
      << none.err;
}

TEST(Previews, InOneFileAreOfTheSampleThatIsAskedFor) {
  const TempFolder folder;
  ASSERT_EQ(
      run(previewed(folder, "p.png", {"--preview-samples", "1:2"})).exit_code,
      0);
  EXPECT_EQ(decoded(folder, "p.png").kind, actors::PictureKind::preview);
  EXPECT_EQ(decoded(folder, "p.png").rgb, decoded(folder, "out/00001.png").rgb);
}

TEST(Previews, AreWrittenAnewOverEarlierPreviewsOnly) {
  const TempFolder folder;
  const std::vector<std::string> arguments =
      previewed(folder, "p-{index}.png", {"--exists", "skip"});
  ASSERT_EQ(run(arguments).exit_code, 0);
  std::filesystem::remove(folder.path("out/00001.png"));
  EXPECT_EQ(run(arguments).exit_code, 0);
  std::filesystem::copy_file(folder.path("out/00000.png"),
                             folder.path("p-1.png"),
                             std::filesystem::copy_options::overwrite_existing);
  const Outcome outcome = run(arguments);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("[--preview] what is there is no preview"),
            std::string::npos)
      << outcome.err;
}

TEST(Previews, RefuseNamesThatAreNone) {
  const TempFolder folder;
  for (const char* name : {"p-{number}.png", "p-{index}.jpg", "{index}/p.png",
                           "p-{index:5}.png", "out/{index:05}.png"}) {
    const Outcome outcome = run(previewed(folder, name));
    EXPECT_EQ(outcome.exit_code, 2) << name;
    EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
  }
}

/// The outputs of CHORDS before the one that is waited for: no byte of the
/// result follows from them.
TEST(Previews, LetTheFasterCoresOfChordsRun) {
  const TempFolder folder;
  const auto chords = [](const std::vector<std::string>& more) {
    const Outcome outcome = run(tiny_sample(
        overridden({"--method", "chords", "--window", "4", "--outputs", "3",
                    "--steps", "8", "--class", "1", "--json"},
                   more)));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.json();
  };
  const nlohmann::json plain = chords({"-o", folder.path("a.png")});
  const nlohmann::json shown =
      chords({"-o", folder.path("b.png"), "--preview", folder.path("p.png")});
  EXPECT_EQ(shown["latents_xxh3"], plain["latents_xxh3"]);
  EXPECT_GT(shown["nfe"], plain["nfe"]);
  EXPECT_EQ(folder.read("b.png"), folder.read("a.png"));
  EXPECT_EQ(decoded(folder, "p.png").rgb, decoded(folder, "b.png").rgb);
}

}  // namespace
}  // namespace troupe::test
