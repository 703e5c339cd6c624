#include <malloc.h>
#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "models/files/safetensors.h"
#include "tests/models/helpers.h"

namespace troupe::models {
namespace {

constexpr const char* kEmpty =
    R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";

/// The name of the only tensor of a header that spells it so.
std::string name_of(const std::string& spelt) {
  const auto header =
      parse_safetensors_header("{\"" + spelt + kEmpty + "}", 0, "file");
  return std::string(header.entries[0].name);
}

TEST(HeaderText, DecodesNamesAsJson) {
  for (const char* spelt :
       {"plain", "", "naïve", "日本", R"(\"\\\/\b\f\n\r\t)", R"(\u0041\u00e9)",
        R"(\u65e5\uD83C\udfad end)", R"(\u0000x)"}) {
    EXPECT_EQ(name_of(spelt),
              nlohmann::json::parse("\"" + std::string(spelt) + "\""))
        << spelt;
  }
}

TEST(HeaderText, RefusesWhatIsNotJson) {
  for (const std::string spelt :
       {R"(\x)", R"(\u12)", R"(\u12g4)", R"(\ud800)", R"(\ud800\u0041)",
        R"(\udc00)", "\n", "\x01", "\xc0\xaf", "\xed\xa0\x80", "\xff", "\\"}) {
    EXPECT_FALSE(nlohmann::json::accept("\"" + spelt + "\""));
    EXPECT_EQ(error_of([&] { (void)name_of(spelt); }).code(),
              Errc::corrupt_file);
  }
  for (const char* shape :
       {"[00]", "[0,]", "[,0]", "[0 0]", "[+0]", "[0", "[0}", "[.0]"}) {
    const std::string header =
        std::string(R"({"a":{"dtype":"U8","data_offsets":[0,0],"shape":)") +
        shape + "}}";
    EXPECT_FALSE(nlohmann::json::accept(header)) << shape;
    EXPECT_EQ(
        error_of([&] { (void)parse_safetensors_header(header, 0, ""); }).code(),
        Errc::corrupt_file)
        << shape;
  }
}

TEST(HeaderText, TakesNothingThatAGeneralParserDoesNot) {
  const std::string good =
      R"({"__metadata__": {"format":"pt","\u00e9":"1"}, "b\n":{"dtype":"F32",)"
      R"("shape":[2,1],"data_offsets":[2,10]},"a":{"dtype":"BF16","shape":[],)"
      R"("data_offsets":[0,2]}}  )";
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): the same every time
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = good;
    for (int edits = static_cast<int>(random() % 3); edits >= 0; --edits) {
      const char* kLetters = "\"\\{}[]:,0129u aF\xc3\xff\n";
      const std::size_t at = 1 + random() % (text.size() - 1);
      text[at] = kLetters[random() % 20];
    }
    try {
      const auto header = parse_safetensors_header(text, 10, "file");
      const auto json = nlohmann::json::parse(text);
      ++accepted;
      ASSERT_EQ(header.entries.size() + json.count("__metadata__"),
                json.size());
      for (const SafetensorsEntry& entry : header.entries) {
        ASSERT_EQ(json[std::string(entry.name)]["data_offsets"][0],
                  entry.begin);
      }
    } catch (const Error&) {
    } catch (const nlohmann::json::exception& error) {
      FAIL() << error.what() << ": " << text;
    }
  }
  EXPECT_GT(accepted, 100);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

/// VmHWM or VmRSS of this process in bytes.
std::size_t status_bytes(const char* key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == key) {
      std::size_t kibibytes = 0;
      status >> kibibytes;
      return kibibytes * 1024;
    }
  }
  return 0;
}

/// What opening the file takes at its height over the size of its header, in a
/// process of its own.
double peak_over_header(const std::filesystem::path& path,
                        std::size_t header_bytes) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    // What earlier tests left free would be used first, and not be counted.
    ::malloc_trim(0);
    std::ofstream("/proc/self/clear_refs") << "5";  // the peak so far
    const std::size_t before = status_bytes("VmRSS:");
    double share = -1;
    {
      const TensorFiles files({path});
      share = static_cast<double>(status_bytes("VmHWM:") - before) /
              static_cast<double>(header_bytes);
    }
    (void)!::write(ends[1], &share, sizeof share);
    ::_exit(0);
  }
  double share = -1;
  EXPECT_EQ(::read(ends[0], &share, sizeof share),
            static_cast<ssize_t>(sizeof share));
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  return share;
}

TEST(HeaderText, TakesAtMostTwiceItsSize) {
  if (kSanitized) {
    GTEST_SKIP() << "a sanitizer's memory is its own";
  }
  constexpr std::size_t kBytes = std::size_t{24} << 20U;
  std::string many = "{";
  for (int i = 0; many.size() < kBytes; ++i) {
    char name[16];
    (void)std::snprintf(name, sizeof name, "%x", i);
    many += std::string(i == 0 ? "\"" : ",\"") + name + kEmpty;
  }
  many += "}";
  const std::string longest = "{\"" + std::string(kBytes, 'x') + kEmpty + "}";
  const std::string braces = "{\"" + std::string(kBytes, '{') + kEmpty + "}";
  const std::string metadata =
      R"({"__metadata__":{"a":")" + std::string(kBytes, 'x') + "\"}}";
  const TemporaryFolder folder;
  for (const std::string& header : {many, longest, braces, metadata}) {
    const auto path = folder.write("a.safetensors", file_bytes(header, ""));
    const double share = peak_over_header(path, header.size());
    EXPECT_LE(share, 2.0) << header.substr(0, 60);
    EXPECT_GE(share, 0.5) << header.substr(0, 60);
  }
}

TEST(HeaderText, RefusesMetadataWithoutEnd) {
  std::string header = R"({"__metadata__":{)";
  for (int i = 0; i < 70'000; ++i) {
    header += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":\"\"";
  }
  const Error error = error_of(
      [&] { (void)parse_safetensors_header(header + "}}", 0, "file"); });
  EXPECT_TRUE(contains(error.what(), "at most 65536 keys")) << error.what();
}

}  // namespace
}  // namespace troupe::models
