#include <gtest/gtest.h>

#include <limits>

#include "actors/artefacts/npz.h"
#include "models/files/safetensors.h"
#include "tests/cli/program.h"

namespace troupe::test {
namespace {

struct Refused {
  const char* name;
  std::vector<std::string> arguments;
  int exit_code;
  const char* says;  ///< stands in the one line on stderr
};

void PrintTo(const Refused& c, std::ostream* out) { *out << c.name; }

class BadInput : public testing::TestWithParam<Refused> {};

TEST_P(BadInput, GivesOneLineAndTheExitCode) {
  const Refused& c = GetParam();
  const Outcome outcome = run(c.arguments);
  EXPECT_EQ(outcome.exit_code, c.exit_code) << outcome.err;
  EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
  EXPECT_TRUE(outcome.err.starts_with("troupe: [")) << outcome.err;
  EXPECT_NE(outcome.err.find(c.says), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.out, "");
}

/// With an explicit list of noise levels, beside which no --steps may stand.
std::vector<std::string> tiny_list(const char* sigmas) {
  return {"sample", "--random-weights", "dit-tiny", "--sampler",
          "euler",  "--sigmas",         sigmas,     "--class",
          "1",      "--dry-run"};
}

std::vector<std::string> tiny(std::vector<std::string> more) {
  more.insert(more.end(), {"--save", "latents=/tmp/troupe_never.npz"});
  return tiny_sample(std::move(more));
}

std::vector<std::string> emulate(std::vector<std::string> more) {
  more.insert(more.begin(), {"bench", "--random-weights", "dit-tiny", "--class",
                             "1", "--steps", "2"});
  return more;
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadInput,
    testing::Values(
        Refused{"steps_above_training",
                {"schedule", "--steps", "2000"},
                2,
                "trained with 1000 timesteps; change --steps"},
        Refused{"verb", {"smaple"}, 2, "did you mean 'sample'?"},
        Refused{
            "flag", {"sample", "--setps", "3"}, 2, "did you mean '--steps'?"},
        Refused{"value_missing", {"sample", "--steps"}, 2, "--help"},
        Refused{"no_model", {"sample", "-o", "x.png"}, 2, "--random-weights"},
        Refused{"no_such_folder",
                {"sample", "-m", "/no/such/folder", "-o", "x.png"},
                2,
                "/no/such/folder"},
        Refused{"bundled", tiny_sample({"--random-weights", "dit-tinny"}), 2,
                "did you mean"},
        Refused{"sampler", tiny({"--sampler", "dpm++2n"}), 2, "did you mean"},
        Refused{"sampler_of_others", tiny({"--sampler", "DPM++ SDE"}), 2,
                "two network calls a step"},
        Refused{"flow_on_epsilon", tiny({"--sampler", "flow"}), 2,
                "predicts epsilon by dit-tiny"},
        Refused{"bench_flow_on_epsilon",
                {"bench", "--random-weights", "dit-tiny", "--sampler", "flow"},
                2,
                "expected flow_prediction"},
        Refused{"ring_of_a_worker",
                {"worker", "--join", "ipc:///nowhere", "--shard-plan", "ring"},
                2,
                "[--shard-plan] got ring, expected auto, gather or ulysses"},
        Refused{"emulate_0", emulate({"--emulate", "0"}), 2,
                "[--emulate] cannot use this value: got '0', expected"},
        Refused{"emulate_many", emulate({"--emulate", "1025"}), 2,
                "[--emulate] cannot use this value: got '1025', expected"},
        Refused{"emulate_shards", emulate({"--emulate", "3", "--shards", "2"}),
                2, "[--shards] got 2, expected a divisor of the 3 emulated"},
        Refused{"emulate_beside_workers",
                emulate({"--emulate", "2", "--workers", "2"}), 2,
                "[--emulate] cannot stand beside --workers"},
        Refused{"emulate_beside_threads",
                emulate({"--emulate", "2", "--threads", "2"}), 2,
                "[--emulate] cannot stand beside --threads"},
        Refused{"emulate_on_a_gpu",
                emulate({"--emulate", "2", "--device", "cuda:0"}), 2,
                "[--device] emulated devices compute on the CPU: got cuda:0"},
        Refused{"emulate_speeds",
                emulate({"--emulate", "3", "--speeds", "1,2"}), 2,
                "[--speeds] one per device: got 2, expected 3"},
        Refused{"emulate_speed_0", emulate({"--emulate", "1", "--speeds", "0"}),
                2, "[--speeds] cannot use this value: got '0', expected"},
        Refused{"emulate_step", emulate({"--emulate", "1", "--step-ms", "-1"}),
                2, "[--step-ms] cannot use this value: got '-1', expected"},
        Refused{"emulate_slope",
                emulate({"--emulate", "1", "--row-slope", "-1"}), 2,
                "[--row-slope] cannot use this value: got '-1', expected"},
        Refused{"emulate_gbps", emulate({"--emulate", "1", "--link-gbps", "0"}),
                2, "[--link-gbps] cannot use this value: got '0', expected"},
        Refused{"emulate_us", emulate({"--emulate", "1", "--link-us", "-1"}), 2,
                "[--link-us] cannot use this value: got '-1', expected"},
        Refused{"emulate_jitter",
                emulate({"--emulate", "1", "--jitter", "nan"}), 2,
                "[--jitter] cannot use this value: got 'nan', expected"},
        Refused{
            "not_emulated", emulate({"--step-ms", "40"}), 2,
            "[--step-ms] says how an emulated machine is, and there is none"},
        Refused{"emulated_sample", tiny({"--emulate", "2"}), 2,
                "[--emulate] this verb has no such option"},
        Refused{"sigmas_too_high", tiny_list("1000,500,200"), 2,
                "got 1000 to 200, expected some below 157.407"},
        Refused{"seed_too_low", tiny({"--seed", "-9223372036854775809"}), 2,
                "-9223372036854775808 to 18446744073709551615"},
        Refused{"class_name", tiny({"--class", "dog"}), 2, "an id from 0 to 9"},
        Refused{"class_id", tiny({"--class", "10"}), 2, "an id from 0 to 9"},
        Refused{"steps_0", tiny({"--steps", "0"}), 2, "--steps"},
        Refused{"steps_many", tiny({"--steps", "1001"}), 2, "1000"},
        Refused{"guidance_nan", tiny({"--guidance", "nan"}), 2, "--guidance"},
        Refused{"method", tiny({"--method", "picrad"}), 2,
                "did you mean 'picard'?"},
        Refused{"window", tiny({"--method", "picard", "--window", "5"}), 2,
                "window"},
        Refused{"segments", tiny({"--method", "pipeline", "--segments", "5"}),
                2, "--segments"},
        Refused{"segment_speeds",
                tiny({"--method", "stale", "--segments", "3",
                      "--segment-speeds", "1,2"}),
                2, "got 2 for 3 segments"},
        Refused{"segment_speed_0",
                tiny({"--method", "stale", "--segment-speeds", "1,0"}), 2,
                "--segment-speeds"},
        Refused{"wrong_method", tiny({"--method", "batch", "--window", "2"}), 2,
                "picard"},
        Refused{"cfg_unguided", tiny({"--method", "cfg", "--guidance", "1"}), 2,
                "the two branches of guidance"},
        Refused{"sigmas", tiny_list("1,2"), 2, "sigmas"},
        Refused{"order_unused", tiny({"--sampler", "ddim", "--order", "2"}), 2,
                "[--order] this solver has no use for it"},
        Refused{"steps_beside_a_list", tiny({"--timesteps", "9,5"}), 2,
                "[--steps] cannot stand beside --timesteps"},
        Refused{"config_folder", tiny({"--config", "/"}), 2, "got a folder"},
        Refused{"sigma_0_inside", tiny_list("10,5,0,0"), 2,
                "sigmas: got 0 before the end"},
        Refused{"samples", tiny({"--samples", "9:3"}), 2, "A < B"},
        Refused{"nothing_kept",
                {"sample", "-m", "/no/such/folder"},
                2,
                "/no/such/folder"},
        Refused{"out_unwritable", tiny_sample({"-o", "/proc/x.png"}), 2,
                "/proc"},
        Refused{"out_no_folder", tiny_sample({"-o", "/no/such/x.png"}), 2,
                "/no/such"},
        Refused{"out_one_for_many", tiny_sample({"-n", "2", "-o", "x.png"}), 2,
                "{index:05}"},
        Refused{"out_not_png", tiny_sample({"-o", "x.jpg"}), 2, "PNG"},
        Refused{"grid_too_large",
                tiny_sample({"-n", "900000", "--grid", "troupe_never.png"}), 2,
                "got 17084 pixels a side, expected at most 16384"},
        Refused{"grid_is_an_image",
                tiny_sample({"-n", "3", "-o", "./x-{index}.png", "--grid",
                             "x-1.png"}),
                2, "x-1.png] two outputs of one name"},
        Refused{"preview_is_the_trace",
                tiny_sample({"-o", "x.png", "--preview", "y.png", "--trace",
                             "./y.png"}),
                2, "y.png] two outputs of one name"},
        Refused{"save_twice", tiny({"--save", "latents=troupe_other.npz"}), 2,
                "latents has two files"},
        Refused{"latents_beyond_the_disk",
                tiny_sample({"-n", "10000000", "--size", "64x64", "--save",
                             "latents=troupe_never.safetensors"}),
                3, "--save latents] the disk has too little room"},
        Refused{"trajectory_beyond_the_disk",
                tiny_sample({"-n", "10000000", "--steps", "1000", "--save",
                             "trajectory=troupe_never.safetensors"}),
                3, "--save trajectory] the disk has too little room"},
        Refused{"trajectory_beyond_its_format",
                tiny_sample({"-n", "10000", "--steps", "1000", "--save",
                             "trajectory=troupe_never.npz"}),
                2, "larger than 4 GiB"},
        Refused{"save", tiny_sample({"--save", "latent=x.npz"}), 2, "latents"},
        Refused{"from_missing", tiny({"--from", "/no/such.png"}), 2,
                "/no/such.png"},
        Refused{"config_missing", tiny({"--config", "/no/such.toml"}), 2,
                "/no/such.toml"},
        Refused{"init_latents", tiny({"--init-latents", "/no/such.npy"}), 2,
                "/no/such.npy"},
        Refused{"warmup",
                tiny({"--method", "stale", "--segments", "2", "--warmup", "9"}),
                2, "[--warmup] counts model calls"},
        Refused{"preview_pattern",
                tiny_sample({"-o", "x.png", "--preview", "pp-{step:03}.png"}),
                2, "[--preview] the only placeholder is {index}"},
        Refused{"grid_pattern", tiny_sample({"--grid", "g-{index}.png"}), 2,
                "[--grid] a placeholder"},
        Refused{"kinds_compared",
                {"verify", "/no/a.png", "--against", "/no/b.npz"},
                2,
                "give two .png images, or two tensor files"},
        Refused{"inspect_nothing", {"inspect"}, 2, "folder"},
        Refused{"inspect_missing",
                {"inspect", "/no/such"},
                2,
                "/no/such] no such file or folder; give a checkpoint folder"},
        Refused{"inspect_unreachable",
                {"inspect", std::string(5000, 'x')},
                2,
                "cannot look at it"},
        Refused{"plot_not_svg",
                {"schedule", "--plot", "00001.png"},
                2,
                "end the name in .svg"},
        Refused{"schedule_steps", {"schedule", "--steps", "0"}, 2, "--steps"}),
    [](const auto& param) { return std::string(param.param.name); });

TEST(BadFiles, AreCorruptWithExitCodeSix) {
  const TempFolder folder;
  const std::string png = folder.write("a.png", "\x89PNG\r\n\x1a\nrubbish");
  const std::string tensors =
      folder.write("a.safetensors", std::string(8, '\xff') + "{}");
  const std::string toml = folder.write("a.toml", "steps = = 3\n");
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"inspect", png},
        {"inspect", tensors},
        tiny_sample({"--from", png, "-o", folder.path("b.png")}),
        tiny_sample({"--config", toml, "-o", folder.path("b.png")})}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 6) << outcome.err;
    EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
  }
  EXPECT_EQ(folder.names(),
            (std::vector<std::string>{"a.png", "a.safetensors", "a.toml"}));
}

/// A .npz or .safetensors of these tensors; the path.
std::string tensors(const TempFolder& folder, const std::string& name,
                    const std::vector<NamedTensor>& items) {
  if (name.ends_with(".safetensors")) {
    models::write_safetensors(folder.path(name), items);
    return folder.path(name);
  }
  const std::vector<std::byte> bytes = actors::encode_npz(items);
  return folder.write(
      name, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

TEST(BadInput, SaysWhatIsWrongWithGivenLatents) {
  const TempFolder folder;
  const Tensor good = Tensor::zeros({3, 16, 16}, DType::f32);
  Tensor bad = good.clone();
  bad.span<float>()[7] = std::numeric_limits<float>::quiet_NaN();
  const Tensor other = Tensor::zeros({4, 8, 8}, DType::f32);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {tensors(folder, "nan.npz", {{"latents", bad}}),
       "tensor 'latents': got NaN or infinity"},
      {tensors(folder, "nan.safetensors", {{"latents", bad}}),
       "tensor 'latents': got NaN or infinity"},
      {tensors(folder, "two.npz", {{"a", good}, {"b", good}}),
       "no tensor named 'latents': got 'a', 'b'; name the one"},
      {tensors(folder, "shape.npz", {{"latents", other}}),
       "; give latents made for this model"}};
  for (const auto& [path, says] : cases) {
    const Outcome outcome =
        run(tiny_sample({"--init-latents", path, "-o", folder.path("a.png")}));
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
    EXPECT_NE(outcome.err.find(path + "] "), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.err.find("checkpoint"), std::string::npos) << outcome.err;
  }
}

TEST(BadInput, NamesTheVariableThatAMethodRefuses) {
  const Outcome outcome =
      run(tiny({"--method", "stale", "--segments", "2"}), {"TROUPE_WARMUP=9"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(outcome.err.starts_with("troupe: [TROUPE_WARMUP] counts model"))
      << outcome.err;
}

TEST(BadInput, SaysWhatToDoWithABrokenFile) {
  const TempFolder folder;
  const Outcome archive =
      run(tiny_sample({"--init-latents", folder.write("a.npz", "no archive"),
                       "-o", folder.path("a.png")}));
  EXPECT_EQ(archive.exit_code, 6);
  EXPECT_NE(archive.err.find("archive; write it anew with np.savez"),
            std::string::npos)
      << archive.err;
  const Outcome image = run({"inspect", folder.write("b.png", "no picture")});
  EXPECT_EQ(image.exit_code, 6);
  EXPECT_NE(image.err.find("; give an image that troupe sample wrote"),
            std::string::npos)
      << image.err;
}

TEST(BadInput, ManyWorkersAreWarnedOf) {
  const TempFolder folder;
  const Outcome outcome =
      run(tiny_sample({"--workers", "1024", "--dry-run", "-n", "1024", "-o",
                       folder.path(), "--class", "1"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("will be slower than fewer"), std::string::npos)
      << outcome.err;
}

TEST(BadInput, ANoiseLevelIsAnnouncedWhereItWasAdded) {
  const auto says = [](const char* sigmas) {
    const Outcome outcome = run(tiny_list(sigmas));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.err.find("noise level of 0 was added") != std::string::npos;
  };
  EXPECT_TRUE(says("10,5,1"));
  EXPECT_FALSE(says("10,5,1,0"));
}

TEST(BadInput, TooLittleMemoryIsSaidBeforeLoading) {
  if (is_sanitized()) {
    GTEST_SKIP() << "a sanitizer's shadow needs the whole address space";
  }
  const TempFolder folder;
  const Outcome outcome =
      run_in_2_gib({"sample", "--random-weights", "dit-xl-2-512", "--class",
                    "1", "-o", folder.path("a.png")});
  EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
  EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
  EXPECT_TRUE(outcome.err.starts_with("troupe: [memory]")) << outcome.err;
  EXPECT_NE(outcome.err.find("ulimit -v allows 2.00 GiB: "), std::string::npos)
      << outcome.err;
  EXPECT_TRUE(folder.names().empty());
}

TEST(BadInput, EndsWithJsonWhenAsked) {
  const Outcome outcome =
      run(tiny_sample({"--steps", "0", "-o", "x.png", "--json"}));
  EXPECT_EQ(outcome.exit_code, 2);
  const nlohmann::json json = outcome.json();
  EXPECT_EQ(json["status"], "failed");
  EXPECT_EQ(json["exit_code"], 2);
  EXPECT_EQ(json["error"]["code"], "invalid_argument");
  EXPECT_EQ(json["error"]["where"], "--steps");
  EXPECT_EQ(json["error"]["retryable"], false);
  EXPECT_EQ(json["images"].size(), 0U);
}

TEST(BadInput, FlagsDecideOverTheEnvironmentWhetherJsonIsPrinted) {
  const auto prints = [](std::vector<std::string> more,
                         const Program::Environment& environment) {
    more.insert(more.end(), {"-o", "x.png", "--steps", "x"});
    const Outcome outcome = run(tiny_sample(std::move(more)), environment);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    return !outcome.out.empty() && outcome.json()["exit_code"] == 2;
  };
  EXPECT_TRUE(prints({}, {"TROUPE_JSON=1"}));
  EXPECT_TRUE(prints({"--json=true"}, {}));
  EXPECT_TRUE(prints({"--json=true"}, {"TROUPE_JSON=0"}));
  EXPECT_FALSE(prints({"--json=false"}, {"TROUPE_JSON=1"}));
  EXPECT_FALSE(prints({}, {"TROUPE_JSON=false"}));
}

TEST(BadInput, AnEmptyNameOfAConfigurationIsRefused) {
  const Outcome outcome = run(tiny_sample({"-o", "x.png"}), {"TROUPE_CONFIG="});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
}

TEST(BadInput, SuggestsForVariablesAndFiles) {
  const TempFolder folder;
  const Outcome variable =
      run(tiny_sample({"-o", folder.path("a.png")}), {"TROUPE_STESP=3"});
  EXPECT_EQ(variable.exit_code, 2);
  EXPECT_NE(variable.err.find("did you mean 'steps'?"), std::string::npos);
  const std::string toml = folder.write("a.toml", "\nwokers = 3\n");
  const Outcome file =
      run(tiny_sample({"-o", folder.path("a.png"), "--config", toml}));
  EXPECT_NE(file.err.find("a.toml:2 wokers"), std::string::npos) << file.err;
  EXPECT_NE(file.err.find("did you mean 'workers'?"), std::string::npos);
}

}  // namespace
}  // namespace troupe::test
