// The safetensors format: exact round trips, partial reads, and refusal of wrong headers.
#include "framework/io/safetensors.h"

#include "framework/data/digest.h"
#include "framework/io/output_file.h"
#include "framework/io/safetensors_stream.h"
#include "tests/io/io_testing.h"

namespace hexad::io {

using namespace base;
namespace {

using namespace testing;

struct Safetensors : ::testing::Test {
  device::DeviceContext device;
  TempFolder folder;
  std::string file = folder / "a.safetensors";

  /// Writes a file with the given header and data.
  void compose(const std::string& header, const std::string& data) {
    const uint64_t length = header.size();
    write_bytes(file, std::string(reinterpret_cast<const char*>(&length), 8) + header + data);
  }
  void expect_refused(const std::vector<std::string>& parts) {
    std::vector<std::string> all{file};
    all.insert(all.end(), parts.begin(), parts.end());
    expect_error(ExitCode::data, all, [&] { SafetensorsFile::open(file); });
  }
};

TEST_F(Safetensors, EveryDtypeIsReadBackBitForBit) {
  std::vector<NamedTensor> tensors;
  for (Dtype d : all_dtypes) {
    tensors.push_back({cat("matrix.", d), random_bits({3, 7}, d, device, 1)});
    tensors.push_back({cat("scalar.", d), random_bits({}, d, device, 2)});
    tensors.push_back({cat("empty.", d), Tensor::empty({4, 0, 2}, d, device)});
  }
  const SafetensorsResult written = write_safetensors(file, tensors, {{"step", "7"}});
  const std::string bytes = read_bytes(file);
  EXPECT_EQ(written.bytes, static_cast<int64_t>(bytes.size()));
  EXPECT_EQ(written.digest, data::digest_of(bytes).to_string());

  const SafetensorsFile back = SafetensorsFile::open(file);
  EXPECT_EQ(back.metadata().at("step"), "7");
  ASSERT_EQ(back.tensors().size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, tensor] = tensors[i];
    expect_bitwise(back.read(name, device), tensor.get());
    EXPECT_EQ(back.digest(name), written.tensors[i]);
    EXPECT_EQ(written.tensors[i], data::digest_of(bytes_of(tensor.get())).to_string());
    EXPECT_EQ(back.info(name).begin % size_of(tensor.dtype()), 0) << name << " is not aligned";
  }
}

TEST_F(Safetensors, FileWithoutTensorsIsLegal) {
  write_safetensors(file, {});
  EXPECT_TRUE(SafetensorsFile::open(file).tensors().empty());
}

TEST_F(Safetensors, UnreadablyLargeHeaderIsNotWritten) {
  const std::vector<NamedTensor> long_name{{std::string(100'000'000, 'x'), Tensor::zeros({1}, Dtype::u8, device)}};
  expect_error(ExitCode::resource, {file, "would have a header of 1000000", "expected at most 100000000"},
               [&] { write_safetensors(file, long_name); });
  EXPECT_FALSE(fs::exists(file));
}

TEST_F(Safetensors, StridedTensorIsWrittenRowMajor) {
  const Tensor t = random_bits({5, 6, 4}, Dtype::bf16, device, 3);
  const Tensor part = t.slice(1, 1, 5).slice(2, 1, 3);
  write_safetensors(file, std::vector<NamedTensor>{{"part", part}});
  expect_bitwise(SafetensorsFile::open(file).read("part", device), part);
}

TEST_F(Safetensors, RectanglesCanBeReadAlone) {
  const Tensor t = random_bits({5, 6, 4}, Dtype::f32, device, 4);
  write_safetensors(file, std::vector<NamedTensor>{{"t", t}});
  const SafetensorsFile back = SafetensorsFile::open(file);
  for (int64_t a = 0; a < 5; ++a) {
    for (int64_t b = 0; b < 6; ++b) {
      for (int64_t c = 0; c < 4; ++c) {
        const Region region{{a, b, c}, {5 - a, (6 - b + 1) / 2, 4 - c}};
        expect_bitwise(back.read_region("t", region.begin, region.size, device), slice(t, region));
      }
    }
  }
}

TEST_F(Safetensors, ColumnsOfATensorLargerThanTheReadWindowAreReadCorrectly) {
  const Tensor t = random_bits({700, 1001}, Dtype::f32, device, 5);  // 2.8 MB; the read window has 1 MiB
  write_safetensors(file, std::vector<NamedTensor>{{"t", t}});
  const SafetensorsFile back = SafetensorsFile::open(file);
  for (auto [begin, size] : {std::pair<int64_t, int64_t>{0, 1}, {999, 2}, {300, 500}}) {
    expect_bitwise(back.read_region("t", {0, begin}, {700, size}, device), t.slice(1, begin, begin + size));
  }
}

TEST_F(Safetensors, RegionOutsideTheTensorIsRefused) {
  write_safetensors(file, std::vector<NamedTensor>{{"t", random_bits({4, 4}, Dtype::u8, device, 6)}});
  const SafetensorsFile back = SafetensorsFile::open(file);
  const auto read = [&](Shape begin, Shape size) {
    return [&, begin, size] { back.read_region("t", begin, size, device); };
  };
  expect_error(ExitCode::data, {"[2, 0]+[3, 4] is not inside tensor 't' [4, 4]"}, read({2, 0}, {3, 4}));
  expect_error(ExitCode::data, {"not inside"}, read({-1, 0}, {1, 1}));
  expect_error(ExitCode::data, {"not inside"}, read({0}, {1}));
  expect_error(ExitCode::data, {"not inside"}, read({1, 1}, {INT64_MAX, 1}));
  expect_error(ExitCode::data, {"contains no tensor 'u'"}, [&] { back.read("u", device); });
}

TEST_F(Safetensors, DuplicateAndReservedTensorNamesThrow) {
  const Tensor t = random_bits({1}, Dtype::u8, device, 7);
  const auto refusal = [&](const std::vector<NamedTensor>& tensors) -> std::string {
    try {
      write_safetensors(file, tensors);
    } catch (const std::logic_error& e) {
      return e.what();
    }
    return "written";
  };
  EXPECT_EQ(refusal({{"t", t}, {"t", t}}), "[safetensors] two tensors have the name 't'; expected distinct names");
  EXPECT_EQ(refusal({{"__metadata__", t}}),
            "[safetensors] a tensor has the name '__metadata__', which the format reserves; expected another name");
}

TEST_F(Safetensors, WriterNamesFileBytesAndReason) {
  expect_error(ExitCode::resource, {"/nowhere/x: cannot be created: No such file"},
               [&] { write_safetensors(folder / "nowhere/x", {}); });
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "this machine has no /dev/full";
  expect_error(ExitCode::resource, {"/dev/full: cannot be written after 0 bytes: No space left on device"}, [&] {
    OutputFile full("/dev/full");
    full.append("x", 1);
    full.finish();
  });
}

TEST_F(Safetensors, MissingEmptyAndShortFilesAreRefused) {
  expect_refused({"cannot be opened: No such file"});
  write_bytes(file, "");
  expect_refused({"has 0 bytes, expected a safetensors file"});
  write_bytes(file, "1234567");
  expect_refused({"has 7 bytes, expected a safetensors file"});
  fs::remove(file);
  fs::create_directory(file);
  expect_refused({"is not a regular file"});
}

TEST_F(Safetensors, HeaderLengthsAreCheckedBeforeAllocation) {
  const auto with_length = [&](uint64_t length) {
    write_bytes(file, std::string(reinterpret_cast<const char*>(&length), 8) + "{}");
  };
  with_length(uint64_t{1} << 63);
  expect_refused({"claims a header of 9223372036854775808 bytes, expected at most 100000000"});
  with_length(UINT64_MAX);
  expect_refused({"claims a header of 18446744073709551615 bytes"});
  with_length(100'000'001);
  expect_refused({"claims a header of 100000001 bytes, expected at most 100000000"});
  with_length(100'000'000);
  expect_refused({"claims a header of 100000000 bytes but has only 10 bytes"});
  with_length(3);
  expect_refused({"claims a header of 3 bytes but has only 10 bytes"});
  with_length(0);
  expect_refused({"does not begin with '{'"});
}

TEST_F(Safetensors, JsonIsReadStrictly) {
  const std::string t = R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  for (const auto& [header, message] : std::vector<std::pair<std::string, std::string>>{
           {"{", "not valid JSON: parse error at line 1, column "},
           {"{} x", "not valid JSON"},
           {" {}", "does not begin with '{'"},
           {"{\"a\xff\":" + t + "}", "not valid JSON"},
           {R"({"a":)" + t + R"(,"a":)" + t + "}", "the name \"a\" appears twice"},
           {R"({"__metadata__":{"k":"1","k":"2"},"a":)" + t + "}", "the name \"k\" appears twice"},
           {R"({"__metadata__":{"k":1},"a":)" + t + "}", "__metadata__.k is 1, expected a string"},
           {R"({"__metadata__":"k","a":)" + t + "}", "__metadata__ is \"k\", expected an object"},
           {"{\"a\":" + std::string(20'000, '[') + "}", "nested deeper than 64"},
           {R"({"a":7})", "a is 7, expected an object"},
           {R"({"a":{"shape":[1],"data_offsets":[0,1]}})",
            "a is an object, expected an object with the member 'dtype'"},
           {R"({"a":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}})",
            "a.dtype is \"F16\", expected one of F32, BF16"},
           {R"({"a":{"dtype":1,"shape":[1],"data_offsets":[0,1]}})", "a.dtype is 1, expected a string"},
           {R"({"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}})",
            "a.shape is 1, expected an array of at most 6 sizes"},
           {R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1],"data_offsets":[0,1]}})",
            "an array of 7 elements, expected an array of at most 6"},
           {R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})",
            "a.shape[0] is -1, expected an integer of at least 0"},
           {R"({"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})",
            "a.shape[0] is 1.0, expected an integer of at least 0"},
           {R"({"a":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,1]}})",
            "expected an integer of at least 0"},
           {R"({"a":{"dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,1]}})",
            "expected an integer of at least 0"},
           {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", "expected two offsets"},
           {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})",
            "expected two offsets in ascending order, not 1 and 0"},
           {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
            "data_offsets[1] is 2, expected an integer from 0 to 1"},
       }) {
    SCOPED_TRACE(header.substr(0, 100));
    compose(header, "x");
    expect_refused({message});
  }
}

TEST_F(Safetensors, OverflowingShapesAreRefused) {
  for (const char* shape : {"[4294967296,4294967296]", "[9223372036854775807,2]", "[4611686018427387904,4,0]",
                            "[0,4294967296,4294967296]"}) {
    compose(cat(R"({"a":{"dtype":"F32","shape":)", shape, R"(,"data_offsets":[0,0]}})"), "");
    expect_refused({"a.shape", "less than 2^63 bytes"});
  }
  compose(R"({"a":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4]}})", "1234");
  expect_refused({"a range of 4000000000000 bytes for F32 [1000000000000], not 4"});
}

TEST_F(Safetensors, OverlapHoleAndTrailingBytesAreRefused) {
  const auto two = [](int a, int b, int c, int d) {
    return cat(R"({"a":{"dtype":"U8","shape":[)", b - a, R"(],"data_offsets":[)", a, ",", b,
               R"(]},"b":{"dtype":"U8","shape":[)", d - c, R"(],"data_offsets":[)", c, ",", d, "]}}");
  };
  compose(two(0, 4, 3, 8), "12345678");
  expect_refused({"tensor 'b'", "before the end of the previous tensor"});
  compose(two(0, 3, 4, 8), "12345678");
  expect_refused({"tensor 'b'", "after the end of the previous tensor"});
  compose(two(1, 4, 4, 8), "12345678");
  expect_refused({"tensor 'a'", "after the end of the header", "without gaps or overlap"});
  compose(two(0, 4, 4, 7), "12345678");
  expect_refused({": the last tensor ends at byte ", "expected no bytes after the last tensor"});
  compose("{}", "1");
  expect_refused({"expected no bytes after the last tensor"});
  compose(two(4, 8, 0, 4), "12345678");  // any order in the header is legal
  EXPECT_EQ(SafetensorsFile::open(file).tensors()[0].name, "b");
}

TEST_F(Safetensors, ShrinkingFileIsAnErrorNotASignal) {
  write_safetensors(file, std::vector<NamedTensor>{{"t", random_bits({4000}, Dtype::u8, device, 8)}});
  const SafetensorsFile back = SafetensorsFile::open(file);
  fs::resize_file(file, 2000);
  expect_error(ExitCode::data, {file, "ends at byte 2000"}, [&] { back.read("t", device); });
}

TEST_F(Safetensors, FileWrittenInPiecesEqualsAFileWrittenAtOnce) {
  const Tensor a = random_bits({3, 5}, Dtype::f32, device, 12), b = random_bits({0, 4}, Dtype::f32, device, 13),
               c = random_bits({7}, Dtype::bf16, device, 14);
  const SafetensorsResult whole_file =
      write_safetensors(file, std::vector<NamedTensor>{{"a", a}, {"b", b}, {"c", c}}, {{"k", "v"}});
  const std::string expected = read_bytes(file);
  SafetensorsStream stream(
      file, {{"a", {"F32", 4}, a.shape()}, {"b", {"F32", 4}, b.shape()}, {"c", {"BF16", 2}, c.shape()}}, {{"k", "v"}});
  const auto* bytes = static_cast<const char*>(a.raw());
  stream.append(bytes, 13);
  stream.append(bytes + 13, a.bytes() - 13);
  stream.append(c.raw(), c.bytes());
  const SafetensorsResult pieces = stream.finish();
  EXPECT_EQ(read_bytes(file), expected);
  EXPECT_EQ(pieces.bytes, whole_file.bytes);
  EXPECT_EQ(pieces.digest, whole_file.digest);
  EXPECT_EQ(pieces.tensors, whole_file.tensors);
}

TEST_F(Safetensors, IncompleteStreamIsABug) {
  SafetensorsStream stream(file, {{"a", {"F16", 2}, {3}}});
  const uint16_t values[3] = {};
  stream.append(values, 4);
  EXPECT_THROW(stream.append(values, 4), std::logic_error);
  EXPECT_THROW(stream.finish(), std::logic_error);
}

// Flips one to three random bits, and truncates every fifth file. Each tensor of a file that opens must have as many
// bytes as its range in the file.
TEST_F(Safetensors, FuzzedFilesAreRefusedOrReadInsideTheirBounds) {
  write_safetensors(file,
                    std::vector<NamedTensor>{{"a", random_bits({3, 5}, Dtype::f32, device, 9)},
                                             {"b", random_bits({7}, Dtype::bf16, device, 10)},
                                             {"c", random_bits({}, Dtype::u8, device, 11)}},
                    {{"k", "v"}});
  const std::string good = read_bytes(file);
  const Philox random(20, Purpose::synthetic, "fuzz");
  int refused = 0;
  constexpr uint64_t rounds = 3000;
  for (uint64_t i = 0; i < rounds; ++i) {
    std::string bad = good;
    for (uint64_t n = 0; n <= random.below(8 * i, 3); ++n) {
      bad[random.below(8 * i + 1 + n, bad.size())] ^= static_cast<char>(1 << random.below(8 * i + 4 + n, 8));
    }
    if (i % 5 == 0) bad.resize(random.below(8 * i + 7, bad.size()));
    write_bytes(file, bad);
    try {
      const SafetensorsFile back = SafetensorsFile::open(file);
      for (const TensorInfo& t : back.tensors()) EXPECT_EQ(back.read(t.name, device).bytes(), t.end - t.begin);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, static_cast<int>(rounds / 4));
}

}  // namespace
}  // namespace hexad::io
