#include "models/files/json.h"
#include "tests/models/helpers.h"

namespace troupe::models {
namespace {

TEST(Json, MissingAndNullKeysGiveTheDefault) {
  const Json json = Json::parse(R"({"a":null,"unknown":{"x":[1]}})", "file");
  EXPECT_EQ(json.integer("a", 7, 0, 10), 7);
  EXPECT_EQ(json.number("b", 0.5), 0.5);
  EXPECT_TRUE(json.boolean("b", true));
  EXPECT_EQ(json.string("b", "x"), "x");
  EXPECT_EQ(json.integers("b", {64}, 0, 100), std::vector<std::int64_t>{64});
  EXPECT_FALSE(json.has("a"));
}

TEST(Json, WrongTypesNameFileAndKey) {
  const Json json = Json::parse(R"({"a":"text","b":1.5,"c":1e40})", "file");
  for (const Error& error :
       {error_of([&] { (void)json.integer("a", 0, 0, 9); }),
        error_of([&] { (void)json.integer("b", 0, 0, 9); }),
        error_of([&] { (void)json.number("c", 0); }),
        error_of([&] { (void)json.boolean("b", false); }),
        error_of([&] { (void)json.integers("b", {}, 0, 9); })}) {
    EXPECT_EQ(error.code(), Errc::corrupt_file);
    EXPECT_TRUE(contains(error.what(), "[file] key '")) << error.what();
  }
}

TEST(Json, NumbersOutsideTheirBoundsAreErrors) {
  const Json json = Json::parse(
      R"({"a":11,"b":-1,"c":18446744073709551615,"d":[1,99]})", "file");
  EXPECT_TRUE(
      contains(error_of([&] { (void)json.integer("a", 0, 0, 10); }).what(),
               "got 11, expected a whole number from 0 to 10"));
  EXPECT_EQ(error_of([&] { (void)json.integer("b", 0, 0, 10); }).code(),
            Errc::corrupt_file);
  EXPECT_EQ(error_of([&] { (void)json.integer("c", 0, 0, 10); }).code(),
            Errc::corrupt_file);
  EXPECT_EQ(error_of([&] { (void)json.integers("d", {}, 0, 10); }).code(),
            Errc::corrupt_file);
}

TEST(Json, RefusesDuplicateKeysDeepNestingAndOtherText) {
  for (const std::string& text :
       {std::string(R"({"a":1,"a":2})"), std::string(R"({"x":{"a":1,"a":2}})"),
        "{\"a\":" + std::string(100'000, '['), std::string("[]"),
        std::string("{"), std::string(), std::string(R"({"a":1e999})")}) {
    EXPECT_EQ(error_of([&] { (void)Json::parse(text, "file"); }).code(),
              Errc::corrupt_file)
        << text.substr(0, 30);
  }
}

TEST(Json, SaysThatANumberIsTooLarge) {
  const Error error =
      error_of([] { (void)Json::parse(R"({"norm_eps": 1e400})", "file"); });
  EXPECT_EQ(error.code(), Errc::corrupt_file);
  EXPECT_TRUE(contains(error.what(), "a number is too large"));
}

}  // namespace
}  // namespace troupe::models
