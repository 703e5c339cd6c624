#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/cli/program.h"

namespace troupe::test {
namespace {

std::uint32_t file_mode(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777U;
}

/// The company's key as it stands in its file.
std::string secret_in(const std::string& company_file) {
  const std::string head = "troupe-key 1 company ";
  EXPECT_TRUE(company_file.starts_with(head)) << company_file;
  return company_file.substr(head.size(), 64);
}

void expect_refused(const std::vector<std::string>& arguments, int exit_code,
                    const std::string& says,
                    const Program::Environment& environment = {}) {
  const Outcome outcome = run(arguments, environment);
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
  EXPECT_EQ(outcome.err_lines(), 1) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
}

TEST(KeysVerb, MakesACompanysKeyAndAWorkersFile) {
  const TempFolder folder;
  const std::string company = folder.path("company.key");
  const std::string node = folder.path("node.key");
  const Outcome made = run({"keys", "new", "--out", company});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const Outcome derived =
      run({"keys", "worker", "--from", company, "-o", node, "--verbose"});
  ASSERT_EQ(derived.exit_code, 0) << derived.err;
  EXPECT_EQ(file_mode(company), 0600U);
  EXPECT_EQ(file_mode(node), 0600U);
  const std::string secret = secret_in(folder.read("company.key"));
  EXPECT_EQ(folder.read("node.key").find(secret), std::string::npos);
  for (const std::string& text :
       {made.out, made.err, derived.out, derived.err}) {
    EXPECT_EQ(text.find(secret.substr(0, 8)), std::string::npos) << text;
  }
  // The same again is the same node file: it is derived.
  ASSERT_EQ(run({"keys", "worker", "--from", company, "--out",
                 folder.path("again.key"), "-q"})
                .out,
            "");
  EXPECT_EQ(folder.read("again.key"), folder.read("node.key"));
}

TEST(KeysVerb, SaysInJsonWhatItMade) {
  const TempFolder folder;
  const std::string company = folder.path("company.key");
  const auto made = run({"keys", "new", "--out", company, "--json"}).json();
  EXPECT_EQ(made["path"], company);
  EXPECT_EQ(made["kind"], "company");
  const auto derived = run({"keys", "worker", "--from", company, "--out",
                            folder.path("node.key"), "--json"})
                           .json();
  EXPECT_EQ(derived["kind"], "worker");
  EXPECT_EQ(derived.dump().find(secret_in(folder.read("company.key"))),
            std::string::npos);
}

TEST(KeysVerb, NeverReplacesAFile) {
  const TempFolder folder;
  const std::string company = folder.path("company.key");
  ASSERT_EQ(run({"keys", "new", "--out", company}).exit_code, 0);
  const std::string before = folder.read("company.key");
  expect_refused({"keys", "new", "--out", company}, 2, "never replaced");
  expect_refused({"keys", "worker", "--from", company, "--out", company}, 2,
                 "never replaced");
  EXPECT_EQ(folder.read("company.key"), before);
  EXPECT_EQ(folder.names().size(), 1U);
}

TEST(KeysVerb, RefusesFilesThatCannotServe) {
  const TempFolder folder;
  const std::string company = folder.path("company.key");
  const std::string node = folder.path("node.key");
  const std::string out = folder.path("out.key");
  ASSERT_EQ(run({"keys", "new", "--out", company}).exit_code, 0);
  ASSERT_EQ(run({"keys", "worker", "--from", company, "--out", node}).exit_code,
            0);
  const auto from = [&](const std::string& path) {
    return std::vector<std::string>{"keys", "worker", "--from",
                                    path,   "--out",  out};
  };
  expect_refused(from(folder.path("nowhere")), 2, "no such key file");
  expect_refused(from(folder.path()), 2, "not a regular file");
  expect_refused(from(node), 2, "expected the company's key");
  expect_refused(from(folder.write("a.png", "rubbish")), 6,
                 "this is no key file");
  ASSERT_EQ(::chmod(company.c_str(), 0644), 0);
  expect_refused(from(company), 2, "got mode 0644, expected 0600");
  const std::string half =
      folder.write("half.key", folder.read("company.key").substr(0, 60));
  ASSERT_EQ(::chmod(half.c_str(), 0600), 0);
  expect_refused(from(half), 6, "changed or cut short");
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST(KeysVerb, SaysWhatIsMissingOrTooMuch) {
  const TempFolder folder;
  const std::string out = folder.path("a.key");
  expect_refused({"keys"}, 2, "expected new or worker");
  expect_refused({"keys", "wroker", "--out", out}, 2, "did you mean 'worker'?");
  expect_refused({"keys", "new", "worker", "--out", out}, 2, "[worker]");
  expect_refused({"keys", "new"}, 2, "[--out] missing");
  expect_refused({"keys", "new", "--out", "-"}, 2, "keys are not printed");
  expect_refused({"keys", "worker", "--out", out}, 2, "[--from] missing");
  expect_refused({"keys", "new", "--from", out, "--out", out}, 2,
                 "[--from] keys new makes a key from nothing");
  expect_refused({"keys", "new", "--out", folder.path("no/a.key")}, 2,
                 "create the folder first");
  expect_refused({"keys", "new", "--steps", "3", "--out", out}, 2, "[--steps]");
  EXPECT_TRUE(folder.names().empty());
}

TEST(KeysVerb, PrintsItsConfigWithoutMakingOrReadingAKey) {
  const TempFolder folder;
  const std::string company = folder.path("company.key");
  ASSERT_EQ(run({"keys", "new", "--out", company}).exit_code, 0);
  const Outcome outcome =
      run({"keys", "worker", "--from", company, "--print-config"},
          {"TROUPE_OUT=" + folder.path("node.key")});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("company.key"), std::string::npos);
  EXPECT_EQ(outcome.out.find(secret_in(folder.read("company.key"))),
            std::string::npos);
  EXPECT_EQ(folder.names().size(), 1U);
}

}  // namespace
}  // namespace troupe::test
