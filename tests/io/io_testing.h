// Helpers for the io tests.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "framework/base/philox.h"
#include "framework/io/region.h"

namespace hexad::io::testing {

using base::Error;
using base::ExitCode;
using base::Philox;
using base::Purpose;
using base::size_of;
using device::Device;

namespace fs = std::filesystem;

/// Temporary folder, which the destructor removes. It is in memory if possible, because these tests sync thousands of
/// files.
class TempFolder {
 public:
  TempFolder() {
    const fs::path memory = "/dev/shm";
    std::string pattern =
        ((fs::is_directory(memory) ? memory : fs::temp_directory_path()) / "hexad-io-XXXXXX").string();
    if (!::mkdtemp(pattern.data())) throw std::runtime_error("mkdtemp cannot create the folder " + pattern);
    path_ = pattern;
  }
  ~TempFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline void flip_bit(const std::string& path, size_t byte, int bit = 0) {
  std::string bytes = read_bytes(path);
  bytes.at(byte) = static_cast<char>(bytes[byte] ^ (1 << bit));
  write_bytes(path, bytes);
}

/// Runs `work`, which must throw Error with `code` and a message that contains all of `parts`.
inline void expect_error(ExitCode code, const std::vector<std::string>& parts, const std::function<void()>& work) {
  try {
    work();
    ADD_FAILURE() << "no error was thrown; expected an error with '" << parts.front() << "'";
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "'" << part << "' is not in: " << error.what();
  }
}

/// Returns a tensor of random bits. Every bit pattern may occur, including NaN payloads, because saved bits must be
/// restored exactly.
inline Tensor random_bits(Shape shape, Dtype dtype, Device device, uint64_t seed) {
  Tensor t = Tensor::empty(shape, dtype, device);
  const Philox random(seed, Purpose::synthetic);
  auto* bytes = static_cast<uint8_t*>(t.raw());
  for (int64_t i = 0; i < t.bytes(); ++i) bytes[i] = static_cast<uint8_t>(random.bits(static_cast<uint64_t>(i)));
  return t;
}

/// Returns the bytes of a tensor, which may be strided, in row-major order.
inline std::string bytes_of(const Tensor& t) {
  std::string bytes;
  const int64_t element = size_of(t.dtype());
  for_each_run(t.shape(), t.shape().row_major_strides(), t.strides(), [&](int64_t, int64_t from, int64_t count) {
    bytes.append(static_cast<const char*>(t.raw()) + from * element, count * element);
  });
  return bytes;
}

inline void expect_bitwise(const Tensor& actual, const Tensor& expected) {
  EXPECT_EQ(actual.dtype(), expected.dtype());
  ASSERT_EQ(actual.shape(), expected.shape());
  EXPECT_TRUE(bytes_of(actual) == bytes_of(expected))
      << "expected equal bytes in two tensors of shape " << actual.shape();
}

/// Runs `work` in a child process. Returns the exit status of the child. The status is the result of `work`, or 99 if
/// `work` throws. The status is 128 + the number of the signal if a signal killed the child.
inline int in_child(const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    int status = 99;
    try {
      status = work();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
    }
    ::_exit(status);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

inline const std::vector<Dtype> all_dtypes{Dtype::f32, Dtype::bf16, Dtype::f64, Dtype::i32, Dtype::i64, Dtype::u8};

}  // namespace hexad::io::testing
