// Reading of plain and compressed files, and detection of damage.
#include "framework/data/byte_stream.h"

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <vector>

#include "tests/data/data_folder.h"

namespace hexad::data {
namespace {

std::string gzip(std::string_view text) {
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&z, static_cast<uLong>(text.size())) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

std::string zstd(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

// Returns a compressible text of about 3 MB.
std::string long_text() {
  std::string text;
  for (uint64_t i = 0; text.size() < 3'000'000; ++i) text += base::cat("line ", i * 2654435761u % 100003, "\n");
  return text;
}

std::string contents(const std::string& path) {
  const auto stream = open_stream(path);
  std::string all;
  for_each_block(*stream, [&](std::string_view block) {
    all += block;
    return true;
  });
  EXPECT_EQ(stream->position(), static_cast<int64_t>(std::filesystem::file_size(path)));
  return all;
}

TEST(ByteStream, DecompressesByTheFileExtension) {
  const ScratchFolder folder;
  for (const std::string& text : {std::string(), std::string("one\n"), long_text()}) {
    EXPECT_EQ(contents(folder.write("a.txt", text)), text);
    EXPECT_EQ(contents(folder.write("a.txt.gz", gzip(text))), text);
    EXPECT_EQ(contents(folder.write("a.txt.GZ", gzip(text))), text);
    EXPECT_EQ(contents(folder.write("a.jsonl.zst", zstd(text))), text);
    EXPECT_EQ(contents(folder.write("a.bin", gzip(text))), gzip(text));
  }
}

TEST(ByteStream, ReadsSeveralMembersAndFrames) {
  const ScratchFolder folder;
  const std::string text = long_text();
  EXPECT_EQ(contents(folder.write("a.gz", gzip(text) + gzip("") + gzip("end"))), text + "end");
  EXPECT_EQ(contents(folder.write("a.zst", zstd(text) + zstd("") + zstd("end"))), text + "end");
}

TEST(ByteStream, ZeroBytesAfterTheLastGzipMemberAreIgnored) {
  const ScratchFolder folder;
  const std::string text = long_text();
  for (const size_t zeros : {1, 511, 131'072, 300'000}) {  // blocks of a file have 131,072 bytes
    const std::string padding(zeros, '\0');
    EXPECT_EQ(contents(folder.write("a.gz", gzip("one") + padding)), "one");
    EXPECT_EQ(contents(folder.write("a.gz", gzip(text) + gzip("end") + padding)), text + "end");
    const std::string path = folder.write("a.gz", gzip("one") + padding + gzip("two"));
    expect_contains(message_of(ExitCode::data, [&] { contents(path); }),
                    base::cat("damaged gzip stream after byte ", gzip("one").size() + zeros,
                              ": zero bytes after a member are followed by other bytes"));
  }
}

TEST(ByteStream, ReadsInSmallAndLargePieces) {
  const ScratchFolder folder;
  const std::string text = long_text().substr(0, 300'000);
  for (const std::string& path : {folder.write("a.gz", gzip(text)), folder.write("a.zst", zstd(text))}) {
    for (const size_t size : {size_t{1}, size_t{7}, size_t{65536}}) {
      const auto stream = open_stream(path);
      std::string all, piece(size, '\0');
      for (size_t n = size; n == size;) {
        n = stream->read(piece.data(), size);
        all.append(piece, 0, n);
      }
      EXPECT_EQ(all, text) << path << " in pieces of " << size;
    }
  }
}

TEST(ByteStream, TruncatedStreamIsAnErrorAtEveryLength) {
  const ScratchFolder folder;
  const std::string gz = gzip("a text of several words"), zst = zstd("a text of several words");
  for (size_t n = 0; n < gz.size(); ++n) {
    const std::string path = folder.write("a.gz", gz.substr(0, n));
    expect_contains(message_of(ExitCode::data, [&] { contents(path); }),
                    base::cat("a.gz: truncated gzip stream: the file ends at byte ", n));
  }
  for (size_t n = 0; n < zst.size(); ++n) {
    const std::string path = folder.write("a.zst", zst.substr(0, n));
    expect_contains(message_of(ExitCode::data, [&] { contents(path); }),
                    base::cat("a.zst: truncated zstd stream: the file ends at byte ", n));
  }
}

TEST(ByteStream, DamageIsNamedByFileAndByte) {
  const ScratchFolder folder;
  std::string gz = gzip(long_text()), zst = zstd(long_text());
  gz[gz.size() - 6] ^= 1;  // damages the checksum
  zst[1] ^= 1;             // damages the magic number
  const auto message = [&](const std::string& path) { return message_of(ExitCode::data, [&] { contents(path); }); };
  expect_contains(message(folder.write("a.gz", gz)), "a.gz: damaged gzip stream after byte ");
  expect_contains(message(folder.write("a.zst", zst)), "a.zst: damaged zstd stream after byte ");
  expect_contains(message(folder.write("b.gz", "words")), "b.gz: damaged gzip stream after byte ");
  expect_contains(message(folder.write("c.gz", gzip("one") + "two")), "c.gz: damaged gzip stream after byte ");
}

TEST(ByteStream, WindowThatIsTooLargeIsNotCalledDamage) {
  const ScratchFolder folder;
  const auto frame = [](char window) {  // magic number, no flags, window, one empty last block
    return std::string("\x28\xb5\x2f\xfd\0", 5) + window + std::string("\1\0\0", 3);
  };
  EXPECT_EQ(contents(folder.write("a.zst", frame('\x88'))), "") << "a window of 128 MiB is accepted";
  expect_contains(message_of(ExitCode::data, [&] { contents(folder.write("a.zst", frame('\x90'))); }),
                  "a.zst: needs more than 128 MiB of memory to decompress");
}

TEST(ByteStream, CompressionExtensionIsRemovedFromNames) {
  EXPECT_EQ(without_compression("a.jsonl.gz"), "a.jsonl");
  EXPECT_EQ(without_compression("a.txt.ZST"), "a.txt");
  EXPECT_EQ(without_compression("a.txt"), "a.txt");
  EXPECT_EQ(without_compression(".gz"), "");
}

}  // namespace
}  // namespace hexad::data
