// The keys of a company stand in its files and nowhere else.

#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "tests/cli/link_job.h"

namespace troupe::test {
namespace {

using Arguments = std::vector<std::string>;
namespace fs = std::filesystem;

std::string bytes_of_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(
        static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

/// Digits of `base`, groups of `in` bytes to groups of `out` digits, the last
/// group without what it lacks.
std::string digits_of(const std::string& bytes, const std::string& alphabet,
                      std::size_t in, std::size_t out) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += in) {
    std::uint64_t group = 0;
    for (std::size_t i = 0; i < in; ++i) {
      const std::size_t from = at + i;
      group =
          group << 8U |
          (from < bytes.size() ? static_cast<unsigned char>(bytes[from]) : 0U);
    }
    std::string digits(out, ' ');
    for (std::size_t i = out; i-- > 0; group /= alphabet.size()) {
      digits[i] = alphabet[group % alphabet.size()];
    }
    const std::size_t here = std::min(in, bytes.size() - at);
    text += here == in ? digits : digits.substr(0, here + out - in);
  }
  return text;
}

std::string base64(const std::string& bytes, const char* last_two) {
  std::string alphabet;
  for (const auto& [from, to] : {std::pair{'A', 'Z'}, {'a', 'z'}, {'0', '9'}}) {
    for (char c = from; c <= to; ++c) {
      alphabet.push_back(c);
    }
  }
  return digits_of(bytes, alphabet + last_two, 3, 4);
}

/// As ZeroMQ writes keys (rfc.zeromq.org/spec/32).
std::string z85(const std::string& bytes) {
  return digits_of(
      bytes,
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWX"
      "YZ.-:+=^!/*?&<>()[]{}@%$#",
      4, 5);
}

/// Everything that would show a key: as in its file, in capitals, as bytes, in
/// base64 and Z85. A quarter of it is enough.
std::vector<std::string> traces_of(const std::string& hex) {
  std::string capitals = hex;
  for (char& c : capitals) {
    c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  const std::string bytes = bytes_of_hex(hex);
  std::vector<std::string> traces;
  for (const std::string& text : {hex, capitals, bytes, base64(bytes, "+/"),
                                  base64(bytes, "-_"), z85(bytes)}) {
    traces.push_back(text.substr(0, text.size() / 4));
    traces.push_back(text.substr(text.size() / 2, text.size() / 4));
  }
  return traces;
}

/// The keys of a file: its words of 64 hexadecimal digits.
std::vector<std::string> keys_in(const std::string& file) {
  std::vector<std::string> keys;
  std::istringstream words(file);
  for (std::string word; words >> word;) {
    if (word.size() == 64) {
      keys.push_back(word);
    }
  }
  return keys;
}

std::string text_in(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string command_line_of(const Program& program) {
  return text_in("/proc/" + std::to_string(program.pid()) + "/cmdline");
}

TEST(CompanyKey, TracesAreThoseOfItsEncodings) {
  // The test vectors of RFC 4648 and of ZeroMQ's specification 32.
  EXPECT_EQ(base64("foob", "+/"), "Zm9vYg");
  EXPECT_EQ(base64(std::string("\xfb\xef\xff", 3), "-_"), "--__");
  EXPECT_EQ(z85(bytes_of_hex("864fd26fb559f75b")), "HelloWorld");
}

TEST(CompanyKey, StandsInNothingThatAJobWrites) {
  const TempFolder keys;
  make_keys(keys, "ours");
  const TempFolder made;
  Arguments job = {"--method",
                   "pipeline",
                   "--segments",
                   "2",
                   "-n",
                   "16",
                   "--steps",
                   "50",
                   "--verbose",
                   "--grid",
                   made.path("grid.png"),
                   "--trace",
                   made.path("trace.json"),
                   "--save",
                   "latents=" + made.path("latents.safetensors"),
                   "--secret-file",
                   keys.path("ours.key")};
  LinkJob company(job, {}, own_tcp_endpoint());
  const Arguments with_key = {"--verbose", "--secret-file",
                              keys.path("ours.node")};
  company.add_worker(with_key);
  company.add_worker(with_key);
  company.await_images(1);
  std::map<std::string, std::string> shown;  // by what it is
  shown["command line of the first process"] = command_line_of(company.head());
  shown["command line of a worker"] = command_line_of(company.worker(0));
  const Outcome looked = run({"ls", company.endpoint(), "--json", "--verbose",
                              "--secret-file", keys.path("ours.node")});
  shown["ls"] = looked.out + looked.err;
  const Outcome head = company.outcome();
  ASSERT_EQ(head.exit_code, 0) << head.err;
  shown["first process"] = head.out + head.err;
  for (const std::size_t worker : {0U, 1U}) {
    const Outcome outcome = company.worker(worker).wait();
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    shown["worker " + std::to_string(worker)] = outcome.out + outcome.err;
  }
  job.insert(job.begin(),
             {"sample", "--random-weights", "dit-tiny", "--print-config"});
  shown["--print-config"] = run(job).out;
  for (const TempFolder* const folder : {&made, &company.folder()}) {
    for (const auto& entry : fs::recursive_directory_iterator(folder->path())) {
      if (entry.is_regular_file()) {
        shown[entry.path()] = text_in(entry.path());
      }
    }
  }
  EXPECT_GE(shown.size(), 7U + 3U + 16U) << "files of the job";
  std::vector<std::string> all = keys_in(keys.read("ours.key"));
  ASSERT_EQ(all.size(), 1U);
  for (const std::string& key : keys_in(keys.read("ours.node"))) {
    all.push_back(key);
  }
  ASSERT_EQ(all.size(), 3U);
  for (const std::string& key : all) {
    for (const std::string& trace : traces_of(key)) {
      for (const auto& [where, text] : shown) {
        EXPECT_FALSE(text.empty()) << where;
        EXPECT_EQ(text.find(trace), std::string::npos)
            << where << " shows a key";
      }
    }
  }
}

}  // namespace
}  // namespace troupe::test
