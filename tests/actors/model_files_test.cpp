#include "actors/remote/model_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/core/error.h"
#include "tests/actors/linked_company.h"
#include "tests/core/temporary_folder.h"

namespace troupe::actors {
namespace {

using Files = std::vector<ModelFile>;

TEST(ModelFiles, AreListedAsTheyAre) {
  const Files files = {{"model_index.json", 836},
                       {"transformer/a b-00001-of-2.safetensors", 1ULL << 40U},
                       {"vae/config.json", 0}};
  EXPECT_EQ(decode_model_files(encode(files)), files);
  EXPECT_EQ(decode_model_files(""), Files{});
}

TEST(ModelFiles, AreRefusedWhereTheyAreNoneOfAFolder) {
  for (const std::string path :
       {"", "/etc/passwd", "../key", "a/../../key", "a//b", "a/", ".", "a/.",
        ".ssh/key", "a/.b", "a\\b", "a\tb", "a\x7f"}) {
    EXPECT_THROW((void)decode_model_files(encode({{path, 1}})), Error) << path;
  }
  for (const std::string text :
       {"1 a", "1\n", " a\n", "-1 a\n", "1x a\n", "a\n", "\n",
        "99999999999999999999 a\n", "1 a\n2 a\n"}) {
    EXPECT_THROW((void)decode_model_files(text), Error) << text;
  }
}

TEST(ModelChunksOfFiles, AreNumberedOneFileAfterTheOther) {
  const std::uint64_t chunk = kModelChunkBytes;
  const ModelChunks chunks(
      {{"empty", 0}, {"exact", 2 * chunk}, {"none", 0}, {"more", chunk + 5}});
  EXPECT_EQ(chunks.num_bytes(), 3 * chunk + 5);
  ASSERT_EQ(chunks.size(), 4U);
  EXPECT_EQ(chunks.at(1).offset, chunk);
  EXPECT_EQ(chunks.at(1).bytes, chunk);
  EXPECT_EQ(chunks.at(3).bytes, 5U);
  EXPECT_EQ(chunks.at(3).end(), chunk + 5);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    EXPECT_EQ(chunks.find(chunks.key_of(i)), i);
  }
  EXPECT_EQ(chunks.find({0, 0}), std::nullopt);
  EXPECT_EQ(chunks.find({1, 2}), std::nullopt);
  EXPECT_EQ(chunks.find({4, 0}), std::nullopt);
  EXPECT_EQ(ModelChunks({}).size(), 0U);
  EXPECT_THROW(ModelChunks({{"a", 1ULL << 59U}, {"b", (1ULL << 59U) + 1}}),
               Error);
}

/// Keeps what is given, by the number of the question.
class GivenParts final : public HubBefore {
 public:
  GivenParts() : HubBefore(nullptr) {}
  void give(net::WantId want, net::Value value) override {
    const auto* const text =
        reinterpret_cast<const char*>(value.at(0).data.get());
    answers_[want].set_value(std::string(text, value[0].size));
  }
  void give_nothing(net::WantId want) override {
    answers_[want].set_value("nothing");
  }
  std::string ask(ModelGiver& giver, const ValueKey& key) {
    const net::WantId want = answers_.size() + 1;
    auto answer = answers_[want].get_future();
    giver.answer(*this, want, key);
    return answer.get();
  }

 private:
  std::map<net::WantId, std::promise<std::string>> answers_;
};

TEST(AModelGiver, GivesWhatHasComeAndGoesOnWhenTheFolderIsRenamed) {
  const TemporaryFolder folder;
  const std::filesystem::path part = folder.path() / "part";
  std::filesystem::create_directories(part / "b");
  const std::string a(kModelChunkBytes, 'a');
  std::ofstream(part / "a") << a << "end";
  std::ofstream(part / "b" / "c") << "c";
  const Files files = {{"a", kModelChunkBytes + 3}, {"b/c", 1}};
  EXPECT_TRUE(has_files(part, files));
  EXPECT_FALSE(has_files(part, {{"a", 3}}));
  EXPECT_FALSE(has_files(part, {{"d", 0}}));
  GivenParts hub;
  ModelGiver giver(part, ModelChunks(files), {true, false, false});
  EXPECT_EQ(hub.ask(giver, ModelFilesKey{}), encode(files));
  EXPECT_EQ(hub.ask(giver, ModelChunksKey{}), "100");
  EXPECT_EQ(hub.ask(giver, ModelChunkKey{0, 0}), a);
  EXPECT_EQ(hub.ask(giver, ModelChunkKey{0, 1}), "nothing");
  giver.add(1);
  giver.rename(folder.path() / "whole");
  EXPECT_EQ(hub.ask(giver, ModelChunksKey{}), "110");
  EXPECT_EQ(hub.ask(giver, ModelChunkKey{0, 1}), "end");
  EXPECT_EQ(hub.ask(giver, ModelChunkKey{1, 0}), "nothing");
  EXPECT_EQ(hub.ask(giver, ModelChunkKey{2, 0}), "nothing");
  EXPECT_EQ(hub.ask(giver, LatentsKey{}), "nothing");
  ModelGiver whole(folder.path() / "whole", {"a", "b/c"});
  EXPECT_EQ(hub.ask(whole, ModelChunksKey{}), "111");
  EXPECT_EQ(hub.ask(whole, ModelChunkKey{1, 0}), "c");
  EXPECT_THROW(giver.rename(folder.path() / "no" / "where"), Error);
}

}  // namespace
}  // namespace troupe::actors
