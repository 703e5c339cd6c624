#include <limits>

#include "models/files/safetensors.h"
#include "tests/models/helpers.h"

namespace troupe::models {
namespace {

/// The message of the error that parsing this header gives.
std::string header_problem(std::string_view header, std::uint64_t data_bytes) {
  const Error error = error_of([&] {
    (void)parse_safetensors_header(std::string(header), data_bytes, "file");
  });
  EXPECT_EQ(error.code(), Errc::corrupt_file);
  EXPECT_EQ(error.place(), "file");
  EXPECT_FALSE(error.hint().empty());
  return error.what();
}

TEST(SafetensorsHeader, ReadsTensorsMetadataAndPadding) {
  const auto header = parse_safetensors_header(
      R"({"__metadata__":{"format":"pt"},)"
      R"("b":{"dtype":"F32","shape":[2,1],"data_offsets":[2,10]},)"
      R"("a":{"dtype":"BF16","shape":[],"data_offsets":[0,2]}}   )",
      10, "file");
  ASSERT_EQ(header.entries.size(), 2U);
  EXPECT_EQ(header.entries[0].name, "a");
  EXPECT_EQ(header.entries[0].shape, Shape{});
  EXPECT_EQ(header.entries[0].dtype, FileDType::bf16);
  EXPECT_EQ(header.entries[1].name, "b");
  EXPECT_EQ(header.entries[1].shape, (Shape{2, 1}));
  EXPECT_EQ(header.entries[1].begin, 2U);
  EXPECT_EQ(header.metadata.at("format"), "pt");
}

TEST(SafetensorsHeader, AcceptsNoTensorsAndEmptyExtents) {
  EXPECT_TRUE(parse_safetensors_header("{}", 0, "file").entries.empty());
  const auto header = parse_safetensors_header(
      R"({"a":{"dtype":"F32","shape":[0,3],"data_offsets":[0,0]}})", 0, "file");
  EXPECT_EQ(header.entries[0].shape.num_elements(), 0);
}

TEST(SafetensorsHeader, AcceptsSubByteTypesThatEndOnAByte) {
  EXPECT_NO_THROW((void)parse_safetensors_header(
      R"({"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}})", 1, "file"));
  EXPECT_NO_THROW((void)parse_safetensors_header(
      R"({"a":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}})", 3,
      "file"));
  EXPECT_TRUE(contains(
      header_problem(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})",
                     1),
      "disagree"));
}

struct BadHeader {
  const char* name;
  const char* header;
  std::uint64_t data_bytes;
  const char* message;
};

class SafetensorsHeaderRule : public testing::TestWithParam<BadHeader> {};

TEST_P(SafetensorsHeaderRule, IsEnforced) {
  const BadHeader& bad = GetParam();
  const std::string message = header_problem(bad.header, bad.data_bytes);
  EXPECT_TRUE(contains(message, bad.message)) << message;
}

const BadHeader kBadHeaders[] = {
    {"Empty", "", 0, "begin with '{'"},
    {"LeadingSpace", " {}", 0, "begin with '{'"},
    {"NotAnObject", "[]", 0, "begin with '{'"},
    {"Truncated", R"({"a":{"dtype")", 0, "not valid JSON"},
    {"TrailingText", "{} x", 0, "not valid JSON"},
    {"InvalidUtf8", "{\"\xff\":{}}", 0, "not valid JSON"},
    {"DuplicateTensor",
     R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},)"
     R"("a":{"dtype":"U8","shape":[],"data_offsets":[1,2]}})",
     2, "duplicate key 'a'"},
    {"DuplicateField",
     R"({"a":{"dtype":"U8","dtype":"U8","shape":[],"data_offsets":[0,1]}})", 1,
     "duplicate key 'dtype'"},
    {"DuplicateMetadata", R"({"__metadata__":{"x":"1","x":"2"}})", 0,
     "duplicate key in __metadata__"},
    {"MetadataTwice", R"({"__metadata__":{},"__metadata__":{}})", 0,
     "duplicate key '__metadata__'"},
    {"MetadataNumber", R"({"__metadata__":{"x":1}})", 0,
     "a number where none belongs"},
    {"UnknownField",
     R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1],"x":1}})", 1,
     "tensor 'a': unknown key 'x'"},
    {"MissingField", R"({"a":{"dtype":"U8","shape":[]}})", 0,
     "expected dtype, shape and data_offsets"},
    {"UnknownDtype",
     R"({"a":{"dtype":"F128","shape":[],"data_offsets":[0,16]}})", 16,
     "unknown dtype 'F128'"},
    {"NegativeExtent",
     R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", 1,
     "negative number"},
    {"FractionalExtent",
     R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", 1,
     "not a whole one"},
    {"NestedShape",
     R"({"a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})", 1,
     "an array where none belongs"},
    {"TooManyExtents",
     R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1],"data_offsets":[0,1]}})", 1,
     "more than 6 extents"},
    {"Overflow",
     R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],)"
     R"("data_offsets":[0,0]}})",
     0, "overflows"},
    {"OverflowBehindZero",
     R"({"a":{"dtype":"F32","shape":[9223372036854775807,3,0],)"
     R"("data_offsets":[0,0]}})",
     0, "overflow"},
    {"OneOffset", R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0]}})", 1,
     "expected two numbers"},
    {"ThreeOffsets",
     R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1,2]}})", 1,
     "a number where none belongs"},
    {"BackwardOffsets",
     R"({"a":{"dtype":"U8","shape":[],"data_offsets":[1,0]}})", 1, "disagree"},
    {"SizeMismatch",
     R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4,
     "disagree"},
    {"Gap",
     R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},)"
     R"("b":{"dtype":"U8","shape":[],"data_offsets":[2,3]}})",
     3, "leaves a gap"},
    {"GapAtTheBegin", R"({"a":{"dtype":"U8","shape":[],"data_offsets":[1,2]}})",
     2, "leaves a gap"},
    {"Overlap",
     R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
     R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
     3, "overlaps"},
    {"DataBehindTheLast",
     R"({"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})", 2,
     "does not end where"},
    {"DataMissing", R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
     3, "does not end where"},
};

INSTANTIATE_TEST_SUITE_P(All, SafetensorsHeaderRule,
                         testing::ValuesIn(kBadHeaders),
                         [](const auto& item) { return item.param.name; });

TEST(SafetensorsHeader, DeepNestingIsAnErrorNotACrash) {
  std::string deep = R"({"a":)";
  for (int i = 0; i < 1'000'000; ++i) {
    deep += '[';
  }
  EXPECT_TRUE(contains(header_problem(deep, 0), "an array where none belongs"));
}

TEST(SafetensorsFile, RefusesHeadersLongerThanTheFile) {
  const TemporaryFolder folder;
  std::string bytes = file_bytes("{}", "");
  bytes[0] = 3;
  const auto path = folder.write("long.safetensors", bytes);
  const Error error = error_of([&] { SafetensorsFile file(path); });
  EXPECT_EQ(error.code(), Errc::corrupt_file);
  EXPECT_TRUE(contains(error.what(), "header length: got 3"));
}

TEST(SafetensorsFile, RefusesHugeHeadersWithoutAllocatingThem) {
  const TemporaryFolder folder;
  std::string bytes = file_bytes("{}", "");
  std::memset(bytes.data(), 0xff, 8);
  const auto path = folder.write("huge.safetensors", bytes);
  EXPECT_EQ(error_of([&] { SafetensorsFile file(path); }).code(),
            Errc::corrupt_file);
}

TEST(SafetensorsFile, RefusesFilesShorterThanALength) {
  const TemporaryFolder folder;
  const auto path = folder.write("short.safetensors", "1234567");
  EXPECT_EQ(error_of([&] { SafetensorsFile file(path); }).code(),
            Errc::corrupt_file);
}

TEST(SafetensorsFile, NamesMissingFilesAndFolders) {
  const TemporaryFolder folder;
  EXPECT_EQ(
      error_of([&] { SafetensorsFile file(folder.path() / "absent"); }).code(),
      Errc::not_found);
  EXPECT_EQ(error_of([&] { SafetensorsFile file(folder.path()); }).code(),
            Errc::io);
}

TEST(SafetensorsFile, AFileThatShrinksIsAnError) {
  const TemporaryFolder folder;
  const auto path = folder.write(
      "shrinks.safetensors",
      file_bytes(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
                 "abcd"));
  const SafetensorsFile file(path);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  const Error error = error_of([&] { (void)file.read(*file.find("a")); });
  EXPECT_EQ(error.code(), Errc::corrupt_file);
  EXPECT_TRUE(contains(error.what(), "became shorter"));
}

TEST(SafetensorsFile, ConvertsFloatsOnRead) {
  const TemporaryFolder folder;
  const float singles[] = {1.0F, -2.5F, 3.1415927F};
  const double doubles[] = {1.0, -2.5, 3.14159265358979};
  std::string data(reinterpret_cast<const char*>(singles), sizeof(singles));
  data.append(reinterpret_cast<const char*>(doubles), sizeof(doubles));
  data.append("\x00\x3c\x00\xc1", 4);  // f16: 1, -2.5
  const SafetensorsFile file(folder.write(
      "floats.safetensors",
      file_bytes(R"({"s":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},)"
                 R"("d":{"dtype":"F64","shape":[3],"data_offsets":[12,36]},)"
                 R"("h":{"dtype":"F16","shape":[2],"data_offsets":[36,40]}})",
                 data)));
  const Tensor narrowed = file.read(*file.find("d"));
  EXPECT_TRUE(bytes_equal(narrowed, file.read(*file.find("s"))));
  const Tensor brain = file.read(*file.find("s"), DType::bf16);
  EXPECT_EQ(brain.data<bfloat16>()[2].to_float(), 3.140625F);
  const Tensor wide = file.read(*file.find("h"), DType::f32);
  EXPECT_EQ(wide.data<float>()[0], 1.0F);
  EXPECT_EQ(wide.data<float>()[1], -2.5F);
}

TEST(SafetensorsFile, ReportsNonFiniteWeightsWithTheTensor) {
  const TemporaryFolder folder;
  std::vector<float> values(10'000, 1.0F);
  values[9'001] = std::numeric_limits<float>::quiet_NaN();
  const auto path = folder.path() / "nan.safetensors";
  const NamedTensor tensors[] = {{"transformer_blocks.3.ff.net.2.weight",
                                  Tensor::from<float>(values, {100, 100})}};
  write_safetensors(path, tensors);
  const SafetensorsFile file(path);
  const Error error =
      error_of([&] { (void)file.read(file.header().entries[0]); });
  EXPECT_EQ(error.code(), Errc::non_finite);
  EXPECT_TRUE(contains(error.what(), "transformer_blocks.3.ff.net.2.weight"));
  EXPECT_TRUE(contains(error.what(), "element 9001"));
}

TEST(SafetensorsFile, ReportsWeightsThatBecomeInfiniteWhenRead) {
  const TemporaryFolder folder;
  std::vector<double> doubles(20'000, 0.5);
  doubles[8'193] = -1e39;        // beyond f32
  const float single = 3.4e38F;  // beyond bf16
  std::string data(reinterpret_cast<const char*>(doubles.data()),
                   doubles.size() * sizeof(double));
  data.append(reinterpret_cast<const char*>(&single), sizeof(single));
  const SafetensorsFile file(folder.write(
      "huge.safetensors",
      file_bytes(
          R"({"d":{"dtype":"F64","shape":[20000],"data_offsets":[0,160000]},)"
          R"("s":{"dtype":"F32","shape":[1],"data_offsets":[160000,160004]}})",
          data)));
  for (const auto& [name, dtype] :
       {std::pair{"d", DType::f32}, {"d", DType::bf16}, {"s", DType::bf16}}) {
    const auto entry = *file.find(name);
    const DType wanted = dtype;
    const Error error = error_of([&] { (void)file.read(entry, wanted); });
    EXPECT_EQ(error.code(), Errc::non_finite) << name;
    EXPECT_TRUE(contains(error.what(), std::string("tensor '") + name + "'"));
    EXPECT_TRUE(
        contains(error.what(), *name == 'd' ? "element 8193" : "element 0"))
        << error.what();
  }
  EXPECT_EQ(file.read(*file.find("s")).data<float>()[0], single);
}

TEST(SafetensorsFile, RefusesTypesThatTensorsCannotHold) {
  const TemporaryFolder folder;
  const SafetensorsFile file(folder.write(
      "f8.safetensors", file_bytes(R"({"a":{"dtype":"F8_E4M3","shape":[1],)"
                                   R"("data_offsets":[0,1]}})",
                                   "x")));
  EXPECT_EQ(error_of([&] { (void)file.read(*file.find("a")); }).code(),
            Errc::unsupported);
}

TEST(SafetensorsFile, WritesWhatItReads) {
  const TemporaryFolder folder;
  const float singles[] = {1.0F, -0.0F, 3.5F, 4.0F, 5.0F, 6.0F};
  const std::int64_t longs[] = {-1, 1LL << 60};
  const std::uint8_t bytes[] = {1, 2, 3};
  const NamedTensor tensors[] = {
      {"bytes", Tensor::from<std::uint8_t>(bytes, {3})},
      {"quote \" and \\", Tensor::from<float>(singles, {2, 3})},
      {"longs", Tensor::from<std::int64_t>(longs, {2})}};
  const auto path = folder.path() / "out.safetensors";
  write_safetensors(path, tensors, {{"seed", "7"}});
  const SafetensorsFile file(path);
  EXPECT_EQ(file.header().metadata.at("seed"), "7");
  for (const NamedTensor& tensor : tensors) {
    ASSERT_TRUE(file.find(tensor.name));
    EXPECT_TRUE(bytes_equal(file.read(*file.find(tensor.name)), tensor.tensor));
  }
  // Nothing but the file is left behind.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()),
                          std::filesystem::directory_iterator()),
            1);
}

TEST(SafetensorsFile, WritingSaysWhereItCannot) {
  const Error error = error_of(
      [] { write_safetensors("/nonexistent/folder/x.safetensors", {}); });
  EXPECT_EQ(error.code(), Errc::io);
  EXPECT_TRUE(contains(error.what(), "/nonexistent/folder/x.safetensors"));
}

TEST(SafetensorsFile, WritingRefusesANameTwice) {
  const TemporaryFolder folder;
  const NamedTensor tensors[] = {{"a", Tensor::zeros({1}, DType::f32)},
                                 {"a", Tensor::zeros({1}, DType::f32)}};
  EXPECT_EQ(error_of([&] {
              write_safetensors(folder.path() / "x.safetensors", tensors);
            }).code(),
            Errc::invalid_argument);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

class Shards : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"a", "b"}) {
      const NamedTensor tensors[] = {{name, Tensor::zeros({2}, DType::f32)}};
      write_safetensors(folder_.path() / (std::string(name) + ".safetensors"),
                        tensors);
    }
  }
  Error open_error(std::string_view weight_map) {
    const auto path = folder_.write(
        "i.json", R"({"metadata":{"total_size":16},"weight_map":)" +
                      std::string(weight_map) + "}");
    return error_of([&] { (void)TensorFiles::from_index(path); });
  }

  TemporaryFolder folder_;
};

TEST_F(Shards, AreFoundThroughTheIndex) {
  const auto path = folder_.write(
      "i.json", R"({"weight_map":{"a":"a.safetensors","b":"b.safetensors"}})");
  const TensorFiles files = TensorFiles::from_index(path);
  EXPECT_EQ(files.num_tensors(), 2U);
  EXPECT_EQ(files.data_bytes(), 16U);
  EXPECT_TRUE(files.find("b"));
  EXPECT_FALSE(files.find("c"));
}

TEST_F(Shards, MayNotReachOutsideTheFolder) {
  for (const char* name : {"../a.safetensors", "/a.safetensors",
                           "x/a.safetensors", "x\\\\a.safetensors", "..", ""}) {
    const Error error = open_error(R"({"a":")" + std::string(name) + R"("})");
    EXPECT_EQ(error.code(), Errc::corrupt_file) << name;
    EXPECT_TRUE(contains(error.what(), "plain file name")) << name;
  }
}

TEST_F(Shards, MissingOnesAreNamed) {
  const Error error = open_error(R"({"c":"c.safetensors"})");
  EXPECT_EQ(error.code(), Errc::not_found);
  EXPECT_TRUE(contains(error.what(), "c.safetensors"));
}

TEST_F(Shards, TensorsListedButAbsentAreNamed) {
  const Error error = open_error(R"({"b":"a.safetensors"})");
  EXPECT_EQ(error.code(), Errc::corrupt_file);
  EXPECT_TRUE(contains(error.what(), "tensor 'b' is not in a.safetensors"));
}

// As diffusers and transformers load them.
TEST_F(Shards, HaveTensorsThatTheIndexPutsElsewhereOrLeavesOut) {
  const NamedTensor tensors[] = {{"c", Tensor::zeros({2}, DType::f32)},
                                 {"d", Tensor::zeros({2}, DType::f32)}};
  write_safetensors(folder_.path() / "c.safetensors", tensors);
  const auto path = folder_.write("i.json", R"({"weight_map":{
      "a":"b.safetensors","b":"c.safetensors","c":"a.safetensors"}})");
  const TensorFiles files = TensorFiles::from_index(path);
  for (const char* name : {"a", "b", "c", "d"}) {
    EXPECT_TRUE(files.find(name)) << name;
  }
}

TEST_F(Shards, DuplicateKeysInTheIndexAreErrors) {
  const Error error =
      open_error(R"({"a":"a.safetensors","a":"b.safetensors"})");
  EXPECT_EQ(error.code(), Errc::corrupt_file);
  EXPECT_TRUE(contains(error.what(), "duplicate key"));
}

}  // namespace
}  // namespace troupe::models
