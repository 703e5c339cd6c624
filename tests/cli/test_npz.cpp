#include <gtest/gtest.h>

#include <cstring>

#include "actors/artefacts/npz.h"
#include "kernels/core/error.h"
#include "tests/cli/npz_tensors.h"

namespace troupe::actors {
namespace {

using test::decode_npz;

Tensor ramp(const Shape& shape) {
  Tensor tensor(shape, DType::f32);
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.data<float>()[i] = static_cast<float>(i) * 0.25F - 1.0F;
  }
  return tensor;
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(Npy, WritesTheHeaderOfNumpysFormatDescription) {
  const std::vector<std::byte> bytes = encode_npy(ramp({2, 3}));
  const std::string text = text_of(bytes);
  EXPECT_EQ(text.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_EQ(text.substr(10, 59),
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
  EXPECT_EQ((bytes.size() - 24) % 64, 0U);
  EXPECT_EQ(text[bytes.size() - 25], '\n');
  EXPECT_NE(text_of(encode_npy(ramp({3}))).find("(3,)"), std::string::npos);
}

TEST(Npz, RoundTripsSeveralTensors) {
  const std::vector<NamedTensor> tensors = {{"latents", ramp({2, 3, 1, 5})},
                                            {"other", ramp({0})}};
  const std::vector<std::byte> bytes = encode_npz(tensors);
  const std::vector<NamedTensor> back = decode_npz("x.npz", bytes);
  ASSERT_EQ(back.size(), 2U);
  EXPECT_EQ(back[0].name, "latents");
  EXPECT_TRUE(bytes_equal(back[0].tensor, tensors[0].tensor));
  EXPECT_EQ(back[1].tensor.shape(), Shape({0}));
}

TEST(Npz, EqualTensorsGiveEqualFiles) {
  const std::vector<NamedTensor> tensors = {{"latents", ramp({2, 2})}};
  EXPECT_EQ(encode_npz(tensors), encode_npz(tensors));
}

TEST(Npz, NoTruncationOrFlippedByteReadsPastTheEnd) {
  const std::vector<NamedTensor> tensors = {{"latents", ramp({2, 2})}};
  const std::vector<std::byte> whole = encode_npz(tensors);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    EXPECT_THROW((void)decode_npz("x", std::span(whole).first(at)), Error);
    std::vector<std::byte> bad = whole;
    bad[at] ^= std::byte{0xFF};
    try {
      (void)decode_npz("x", bad);
    } catch (const Error& error) {
      EXPECT_NE(error.code(), Errc::internal) << at;
    }
  }
}

TEST(Npz, RefusesMembersThatShareTheirBytes) {
  const std::vector<NamedTensor> tensors = {{"latents", ramp({64, 64})}};
  std::vector<std::byte> bytes = encode_npz(tensors);
  // The directory lists the one member three times.
  const std::size_t end = bytes.size() - 22;
  const std::size_t entry = 46 + std::string_view("latents.npy").size();
  const std::vector<std::byte> listed(
      bytes.begin() + static_cast<long>(end - entry),
      bytes.begin() + static_cast<long>(end));
  for (int i = 0; i < 2; ++i) {
    bytes.insert(bytes.begin() + static_cast<long>(end), listed.begin(),
                 listed.end());
  }
  bytes[bytes.size() - 22 + 10] = std::byte{3};
  EXPECT_THROW((void)decode_npz("x", bytes), Error);
}

TEST(Npz, DetectsADamagedElement) {
  const std::vector<NamedTensor> tensors = {{"latents", ramp({2, 2})}};
  std::vector<std::byte> bytes = encode_npz(tensors);
  const std::string text = text_of(bytes);
  const std::size_t data = text.find('\n') + 1;
  bytes[data] ^= std::byte{1};
  EXPECT_THROW((void)decode_npz("x", bytes), Error);
}

TEST(Npy, ReadsDoublesRounded) {
  const std::string header =
      "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }\n";
  std::string file = std::string("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size());
  file += '\0';
  file += header;
  const double values[2] = {0.1, -3.0};
  file.append(reinterpret_cast<const char*>(values), sizeof values);
  const Tensor tensor = decode_npy("x", std::as_bytes(std::span(file)));
  EXPECT_EQ(tensor.data<float>()[0], 0.1F);
  EXPECT_EQ(tensor.data<float>()[1], -3.0F);
  const NpyView view = view_npy("x", std::as_bytes(std::span(file)));
  EXPECT_EQ(view.descr, "<f8");
  EXPECT_EQ(view.shape, Shape({2}));
  ASSERT_EQ(view.data.size(), sizeof values);
  EXPECT_EQ(std::memcmp(view.data.data(), values, sizeof values), 0);
}

/// A .npy of that type, order and shape around the bytes of `values`.
template <typename T>
std::string npy_of(const std::string& descr, const std::string& order,
                   const std::string& shape, const std::vector<T>& values) {
  const std::string header = "{'descr': '" + descr +
                             "', 'fortran_order': " + order +
                             ", 'shape': " + shape + ", }\n";
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size());
  file += '\0';
  file += header;
  file.append(reinterpret_cast<const char*>(values.data()),
              values.size() * sizeof(T));
  return file;
}

template <typename T>
void expect_whole(const std::string& descr) {
  const std::string file = npy_of<T>(descr, "False", "(3,)", {1, 0, 7});
  const Tensor tensor = decode_npy("x", std::as_bytes(std::span(file)));
  ASSERT_EQ(tensor.dtype(), DType::i64) << descr;
  EXPECT_EQ(tensor.data<std::int64_t>()[0], 1) << descr;
  EXPECT_EQ(tensor.data<std::int64_t>()[2], 7) << descr;
}

TEST(Npy, ReadsEveryPlainNumber) {
  expect_whole<std::int8_t>("|i1");
  expect_whole<std::int16_t>("<i2");
  expect_whole<std::uint16_t>("<u2");
  expect_whole<std::int32_t>("<i4");
  expect_whole<std::uint32_t>("<u4");
  expect_whole<std::uint64_t>("<u8");
  // 1, -2 and the smallest half.
  const std::string halves =
      npy_of<std::uint16_t>("<f2", "False", "(3,)", {0x3C00, 0xC000, 0x0001});
  const Tensor tensor = decode_npy("x", std::as_bytes(std::span(halves)));
  ASSERT_EQ(tensor.dtype(), DType::f32);
  EXPECT_EQ(tensor.data<float>()[0], 1.0F);
  EXPECT_EQ(tensor.data<float>()[1], -2.0F);
  EXPECT_EQ(tensor.data<float>()[2], 0x1p-24F);
  for (const char* descr : {">f4", "<c8", "<f16", "<U1", "|S4"}) {
    const std::string other = npy_of<float>(descr, "False", "(0,)", {});
    EXPECT_THROW((void)decode_npy("x", std::as_bytes(std::span(other))), Error)
        << descr;
  }
}

// np.save writes a transposed array so.
TEST(Npy, ReadsArraysWhoseFirstAxisIsTheFastest) {
  // [[[0, 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 10, 11]]]
  const std::string file = npy_of<float>(
      "<f4", "True", "(2, 2, 3)", {0, 6, 3, 9, 1, 7, 4, 10, 2, 8, 5, 11});
  const Tensor tensor = decode_npy("x", std::as_bytes(std::span(file)));
  EXPECT_EQ(tensor.shape(), Shape({2, 2, 3}));
  for (std::int64_t i = 0; i < 12; ++i) {
    EXPECT_EQ(tensor.data<float>()[i], static_cast<float>(i)) << i;
  }
  const std::string halves = npy_of<std::uint16_t>(
      "<f2", "True", "(2, 2)", {0x3C00, 0xC000, 0x4200, 0x0000});
  const Tensor square = decode_npy("x", std::as_bytes(std::span(halves)));
  EXPECT_EQ(square.data<float>()[1], 3.0F);
  EXPECT_EQ(square.data<float>()[2], -2.0F);
  const std::string none = npy_of<float>("<f4", "True", "(0, 3)", {});
  EXPECT_EQ(decode_npy("x", std::as_bytes(std::span(none))).shape(),
            Shape({0, 3}));
}

TEST(Npy, RefusesVersionsThatNumpyHasNot) {
  std::vector<std::byte> bytes =
      encode_npy(Tensor::from<float>(std::vector<float>{1.0F}, {1}));
  constexpr std::size_t kVersion = 6;
  for (const int version : {0, 4, 9, 255}) {
    bytes[kVersion] = static_cast<std::byte>(version);
    try {
      (void)decode_npy("a.npy", bytes);
      FAIL() << version;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::corrupt_file) << version;
    }
  }
}

TEST(Npy, NamesTheFileOfAShapeBeyondCounting) {
  std::vector<std::byte> bytes = encode_npy(Tensor({9, 9}, DType::u8));
  const std::string shape = "(9, 9)";
  const std::string huge = "(4611686018427387904, 4)";
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  const std::size_t at =
      std::string_view(text, bytes.size()).find(shape + ", }");
  ASSERT_NE(at, std::string_view::npos);
  const std::string header = huge + ", }";  // over the spaces that follow
  std::memcpy(bytes.data() + at, header.data(), header.size());
  try {
    (void)decode_npy("huge.npy", bytes);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::corrupt_file);
    EXPECT_EQ(error.place(), "huge.npy");
  }
}

}  // namespace
}  // namespace troupe::actors
