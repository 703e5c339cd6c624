#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/cli/program.h"

namespace troupe::test {
namespace {

/// A .npy file of format 1.0 with f32 elements.
std::string npy(const std::string& shape, const std::vector<float>& values,
                const std::string& descr = "<f4") {
  std::string header = "{'descr': '" + descr +
                       "', 'fortran_order': False, 'shape': " + shape + ", }\n";
  std::string text("\x93NUMPY\x01\x00", 8);
  text += static_cast<char>(header.size());
  text += '\0';
  text += header;
  for (const float value : values) {
    char bytes[8];
    const double wide = value;
    if (descr == "<f8") {
      std::memcpy(bytes, &wide, sizeof wide);
    } else {
      std::memcpy(bytes, &value, sizeof value);
    }
    text.append(bytes, descr == "<f8" ? sizeof wide : sizeof value);
  }
  return text;
}

TEST(InspectVerb, ReadsTheFilesOfSave) {
  const TempFolder folder;
  for (const char* name : {"a.npz", "a.npy", "a.safetensors"}) {
    const std::string path = folder.path(name);
    ASSERT_EQ(run(tiny_sample(
                      {"-n", "2", "--save", "latents=" + path, "--class", "1"}))
                  .exit_code,
              0);
    const Outcome outcome = run({"inspect", path, "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const nlohmann::json item = outcome.json()["items"][0];
    EXPECT_EQ(item["tensors"][0]["shape"], "[2, 3, 16, 16]");
    EXPECT_EQ(item["tensors"][0]["dtype"], "F32");
    EXPECT_EQ(item["elements"], 2 * 3 * 16 * 16);
    EXPECT_NE(run({"inspect", path}).out.find("F32   [2, 3, 16, 16]"),
              std::string::npos);
  }
}

TEST(InspectVerb, GoesOnOverAllFilesAndEndsWithTheWorst) {
  const TempFolder folder;
  const std::string good = folder.write("a.npy", npy("(2,)", {1, 2}));
  const std::string bad = folder.write("b.npy", "no array");
  const std::string none = folder.path("none.png");
  const Outcome outcome = run({"inspect", none, bad, good, "--json"});
  EXPECT_EQ(outcome.exit_code, 6);
  EXPECT_EQ(outcome.err_lines(), 2) << outcome.err;
  const nlohmann::json json = outcome.json();
  EXPECT_EQ(json["exit_code"], 6);
  EXPECT_EQ(json["status"], "failed");
  EXPECT_EQ(json["error"]["where"], bad);
  EXPECT_EQ(json["items"][0]["error"]["code"], "not_found");
  EXPECT_EQ(json["items"][1]["error"]["code"], "corrupt_file");
  EXPECT_EQ(json["items"][2]["elements"], 2);
  const Outcome text = run({"inspect", bad, good});
  EXPECT_EQ(text.exit_code, 6);
  EXPECT_NE(text.out.find("a.npy: 1 tensor,"), std::string::npos) << text.out;
}

/// A .safetensors file of `count` empty tensors and as many texts.
std::string empty_tensors(int count) {
  std::string header = R"({"__metadata__":{)";
  for (int i = 0; i < count; ++i) {
    header += (i > 0 ? ",\"" : "\"") + std::to_string(i) + R"(":"text")";
  }
  header += "}";
  for (int i = 0; i < count; ++i) {
    header += ",\"" + std::to_string(i) +
              R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  }
  header += "}";
  std::string text(8, '\0');
  for (int i = 0; i < 8; ++i) {
    text[i] = static_cast<char>(header.size() >> (8 * i) & 0xFFU);
  }
  return text + header;
}

TEST(InspectVerb, ListsSoManyTensorsAndCountsTheOthers) {
  const TempFolder folder;
  constexpr int kTensors = 60'000;
  const std::string few = folder.write("1.safetensors", empty_tensors(1));
  const std::string many =
      folder.write("2.safetensors", empty_tensors(kTensors));
  const Outcome little = run({"inspect", few, "--json"});
  const Outcome outcome = run({"inspect", many, "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json item = outcome.json()["items"][0];
  EXPECT_EQ(item["tensors"].size() + item["tensors_left_out"].get<int>(),
            std::size_t{kTensors});
  EXPECT_EQ(item["metadata"].size() + item["metadata_left_out"].get<int>(),
            std::size_t{kTensors});
  EXPECT_EQ(item["tensors"].size(), 20000U);
  if (!is_sanitized()) {
    // Listing every one took 70 MiB more.
    EXPECT_LT(outcome.peak_rss_bytes, little.peak_rss_bytes + (48U << 20U));
  }
  EXPECT_EQ(little.json()["items"][0]["tensors_left_out"], 0);
  EXPECT_NE(run({"inspect", many}).out.find("… and 40000 more"),
            std::string::npos);
  EXPECT_NE(run({"inspect", few}).out.find("1 tensor,"), std::string::npos);
}

TEST(SaveOption, WritesAnArrayThatAnotherRunTakes) {
  const TempFolder folder;
  const std::string latents = folder.path("a.npy");
  const std::string points = folder.path("t.npy");
  const std::vector<std::string> arguments =
      tiny_sample({"-n", "2", "--save", "latents=" + latents, "--save",
                   "trajectory=" + points, "-o", folder.path("out"), "--exists",
                   "skip", "--json"});
  const Outcome made = run(arguments);
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const Outcome again = run(arguments);  // finds its rows in both files
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(again.json()["images"][1]["status"], "skipped");
  const Outcome taken =
      run(tiny_sample({"-n", "2", "--init-latents", latents, "--save",
                       "latents=" + folder.path("b.npz")}));
  EXPECT_EQ(taken.exit_code, 0) << taken.err;
}

nlohmann::json verified(const std::string& a, const std::string& b,
                        std::vector<std::string> more, int exit_code) {
  more.insert(more.begin(), {"verify", a, "--against", b, "--json"});
  const Outcome outcome = run(more);
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
  EXPECT_EQ(outcome.err_lines(), exit_code == 0 ? 0 : 1) << outcome.err;
  return outcome.json()["files"][0];
}

TEST(VerifyVerb, ComparesWithinATolerance) {
  const TempFolder folder;
  // Apart by 0.5 at most; the other's largest is 8.
  const std::string a = folder.write("a.npy", npy("(3,)", {1.5F, -8, 3}));
  const std::string b = folder.write("b.npy", npy("(3,)", {1, -8, 3.25F}));
  const nlohmann::json strict = verified(a, b, {}, 5);
  EXPECT_EQ(strict["same"], false);
  EXPECT_DOUBLE_EQ(strict["largest_absolute_difference"], 0.5);
  EXPECT_DOUBLE_EQ(strict["largest_relative_difference"], 0.0625);
  // The differences are 0.5, 0 and 0.25; the peak is 8.
  EXPECT_DOUBLE_EQ(strict["rmse"], std::sqrt(0.3125 / 3));
  EXPECT_DOUBLE_EQ(strict["psnr_db"],
                   20 * std::log10(8 / std::sqrt(0.3125 / 3)));
  EXPECT_NE(run({"verify", a, "--against", b})
                .out.find("at most 0.5 apart, 0.0625 relative; RMSE 0.323, "
                          "PSNR 27.9 dB"),
            std::string::npos);
  EXPECT_EQ(verified(a, b, {"--tolerance", "0.0625"}, 0)["same"], true);
  EXPECT_EQ(verified(a, b, {"--tolerance", "0.0624"}, 5)["same"], false);
  const nlohmann::json same = verified(a, a, {"--tolerance", "0"}, 0);
  EXPECT_DOUBLE_EQ(same["largest_absolute_difference"], 0);
  EXPECT_DOUBLE_EQ(same["rmse"], 0);
  EXPECT_TRUE(same["psnr_db"].is_null());
  // picard's tolerance from the environment is not this one.
  EXPECT_EQ(
      run({"verify", a, "--against", b}, {"TROUPE_TOLERANCE=1"}).exit_code, 5);
  EXPECT_EQ(run({"verify", a, "--tolerance", "0.1"}).exit_code, 2);
}

TEST(VerifyVerb, ComparesOtherTypesAndRefusesWhatIsNoNumber) {
  const TempFolder folder;
  const std::string a = folder.write("a.npy", npy("(2,)", {1, 2}));
  const std::string wide = folder.write("w.npy", npy("(2,)", {1, 2}, "<f8"));
  const std::string nan = folder.write("n.npy", npy("(2,)", {1, NAN}));
  const std::string tall = folder.write("t.npy", npy("(2, 1)", {1, 2}));
  EXPECT_EQ(verified(a, wide, {}, 5)["same"], false);
  EXPECT_EQ(verified(a, wide, {"--tolerance", "0"}, 0)["same"], true);
  EXPECT_EQ(verified(nan, a, {"--tolerance", "1e9"}, 5)["same"], false);
  EXPECT_EQ(verified(nan, nan, {"--tolerance", "0"}, 0)["same"], true);
  EXPECT_EQ(verified(a, tall, {"--tolerance", "1e9"}, 5)["same"], false);
}

TEST(VerifyVerb, ComparesPicturesWithinATolerance) {
  const TempFolder folder;
  const std::string a = folder.path("a.png");
  const std::string b = folder.path("b.png");
  ASSERT_EQ(run(tiny_sample({"-o", a})).exit_code, 0);
  ASSERT_EQ(run(tiny_sample({"-o", b, "--eta", "0.01"})).exit_code, 0);
  const nlohmann::json found = verified(a, b, {}, 5);
  const double apart = found["largest_relative_difference"];
  EXPECT_NEAR(found["psnr_db"],
              20 * std::log10(255 / found["rmse"].get<double>()), 1e-9);
  EXPECT_GT(apart, 0);
  EXPECT_LE(apart, 1);
  EXPECT_EQ(verified(a, b, {"--tolerance", "1"}, 0)["same"], true);
}

/// "fortran_order" says that the bytes are those of the transposed array.
TEST(VerifyVerb, ComparesArraysOfEitherOrder) {
  const TempFolder folder;
  const std::string rows =
      folder.write("r.npy", npy("(2, 3)", {0, 1, 2, 3, 4, 5}));
  std::string text = npy("(2, 3)", {0, 3, 1, 4, 2, 5});
  text.replace(text.find("False"), 5, "True ");
  const std::string columns = folder.write("c.npy", text);
  EXPECT_EQ(verified(rows, columns, {}, 0)["same"], true);
}

TEST(SaveTrajectory, OfChordsIsWholeWhereItIsExact) {
  const TempFolder folder;
  const auto save = [&](const std::string& name,
                        const std::vector<std::string>& method) {
    return run(overridden(tiny_sample({"--steps", "8", "--class", "1", "--save",
                                       "trajectory=" + folder.path(name)}),
                          method));
  };
  ASSERT_EQ(save("a.npy", {"--method", "sequential"}).exit_code, 0);
  const std::vector<std::string> exact = {"--method", "chords",    "--window",
                                          "4",        "--outputs", "4"};
  const Outcome whole = save("b.npy", exact);
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  EXPECT_EQ(folder.read("b.npy"), folder.read("a.npy"));
  const Outcome refused = save("c.npy", overridden(exact, {"--outputs", "3"}));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(refused.err_lines(), 1) << refused.err;
  EXPECT_NE(refused.err.find("chords goes past some"), std::string::npos)
      << refused.err;
}

TEST(InitLatents, MayBeHalves) {
  const TempFolder folder;
  // 1 as a half and as a float: the same latents.
  std::vector<float> ones(3 * 16 * 16, 1.0F);
  std::string halves = npy("(3, 16, 16)", {}, "<f2");
  for (std::size_t i = 0; i < ones.size(); ++i) {
    halves += std::string("\x00\x3c", 2);
  }
  const auto hash_of = [&](const std::string& latents) {
    const Outcome outcome = run(tiny_sample(
        {"--class", "1", "--init-latents", latents, "--json", "--save",
         "latents=" + folder.path("out.npz"), "--exists", "replace"}));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.exit_code == 0 ? outcome.json()["latents_xxh3"] : nullptr;
  };
  EXPECT_EQ(hash_of(folder.write("h.npy", halves)),
            hash_of(folder.write("o.npy", npy("(3, 16, 16)", ones))));
}

TEST(SigmasOption, TakesListsAsPeopleWriteThem) {
  const TempFolder folder;
  const auto sigmas = [](const std::string& list) {
    const Outcome outcome =
        run({"schedule", "--sampler", "euler", "--sigmas", list, "--json"});
    EXPECT_EQ(outcome.exit_code, 0) << list << outcome.err;
    return outcome.exit_code == 0 ? outcome.json()["sigmas"] : nullptr;
  };
  const nlohmann::json plain = sigmas("10,5.5,1");
  ASSERT_EQ(plain.size(), 4U);
  const std::string file = folder.write("s.txt", "[10.0\n 5.5, 1]\n");
  for (const std::string& list :
       {std::string("10 5.5 1"), std::string("[10, 5.5, 1]"),
        std::string("[ 10  5.5\t1. ]"), std::string("(10,5.5,1,)"),
        "@" + file}) {
    EXPECT_EQ(sigmas(list), plain) << list;
  }
  for (const std::string& list :
       {std::string("10,,1"), std::string("[10 5"), std::string("10] 5"),
        std::string("[10)"), std::string("10;5"), std::string("@"),
        std::string("[[10]]"), "@" + folder.path("none"),
        "@" + folder.write("empty", " \n")}) {
    EXPECT_EQ(
        run({"schedule", "--sampler", "euler", "--sigmas", list}).exit_code, 2)
        << list;
  }
  EXPECT_EQ(run({"schedule", "--timesteps", "[900 500 100]", "--json"})
                .json()["timesteps"],
            (nlohmann::json{900.0, 500.0, 100.0}));
}

}  // namespace
}  // namespace troupe::test
