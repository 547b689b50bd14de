#include "framework/data/token_dataset.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstring>
#include <functional>

#include "tests/data/data_folder.h"

namespace hexad::data {
namespace {

constexpr Digest tokenizer_digest{1, 2};

// Writes three documents: tokens 0..9, no token, and tokens 10..14. Token 12 is not a target if `mask` is true. Returns
// the path.
std::string write_sample(const ScratchFolder& folder, int64_t vocab = 300, bool mask = false) {
  const std::string path = folder / "train.hxd";
  TokenDatasetWriter writer(path, vocab, tokenizer_digest, mask);
  std::vector<int32_t> first, last;
  for (int i = 0; i < 10; ++i) first.push_back(i);
  for (int i = 10; i < 15; ++i) last.push_back(i);
  const auto ones = [&](const auto& ids) { return std::vector<uint8_t>(mask ? ids.size() : 0, 1); };
  std::vector<uint8_t> last_mask = ones(last);
  if (mask) last_mask[2] = 0;
  writer.add_document(first, 100, ones(first));
  writer.add_document({}, 0);
  writer.add_document(last, 50, last_mask);
  writer.finish();
  return path;
}

TEST(TokenDataset, ReadsTheWrittenTokens) {
  for (int64_t vocab : {300, 65536, 65537, 1 << 30}) {
    const ScratchFolder folder;
    const TokenDataset dataset(write_sample(folder, vocab));
    EXPECT_EQ(dataset.tokens(), 15);
    EXPECT_EQ(dataset.documents(), 3);
    EXPECT_EQ(dataset.text_bytes(), 150);
    EXPECT_EQ(dataset.vocab_size(), vocab);
    EXPECT_EQ(dataset.tokenizer(), tokenizer_digest);
    EXPECT_EQ(std::vector<int64_t>(dataset.offsets().begin(), dataset.offsets().end()),
              (std::vector<int64_t>{0, 10, 10, 15}));
    std::vector<int32_t> ids(8);
    dataset.read_ids(4, ids);
    EXPECT_EQ(ids, (std::vector<int32_t>{4, 5, 6, 7, 8, 9, 10, 11}));
    std::vector<uint8_t> mask(3);
    dataset.read_loss_mask(0, mask);
    EXPECT_EQ(mask, (std::vector<uint8_t>{1, 1, 1}));
  }
}

TEST(TokenDataset, ReadsLongRangesAcrossBlocks) {
  const ScratchFolder folder;
  std::vector<int32_t> ids(20000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 7 % 60000);
  TokenDatasetWriter writer(folder / "long.hxd", 60000, {});
  writer.add_document(ids, 1);
  writer.finish();
  std::vector<int32_t> back(ids.size() - 1);
  TokenDataset(folder / "long.hxd").read_ids(1, back);
  EXPECT_EQ(back, std::vector<int32_t>(ids.begin() + 1, ids.end()));
}

TEST(TokenDataset, KeepsALossMask) {
  const ScratchFolder folder;
  const TokenDataset dataset(write_sample(folder, 300, true));
  EXPECT_TRUE(dataset.has_loss_mask());
  std::vector<uint8_t> mask(6);
  dataset.read_loss_mask(9, mask);
  EXPECT_EQ(mask, (std::vector<uint8_t>{1, 1, 1, 0, 1, 1}));
}

TEST(TokenDataset, EmptyDatasetIsLegalToOpen) {
  const ScratchFolder folder;
  TokenDatasetWriter(folder / "none.hxd", 300, {}).finish();
  const TokenDataset dataset(folder / "none.hxd");
  EXPECT_EQ(dataset.documents(), 0);
  EXPECT_EQ(dataset.tokens(), 0);
}

TEST(TokenDataset, FingerprintDependsOnlyOnContents) {
  const ScratchFolder a, b, c;
  EXPECT_EQ(TokenDataset(write_sample(a)).fingerprint(), TokenDataset(write_sample(b)).fingerprint());
  EXPECT_NE(TokenDataset(write_sample(a)).fingerprint(), TokenDataset(write_sample(c, 301)).fingerprint());
}

TEST(TokenDataset, ChangeSinceTheCheckpointIsNamed) {
  const ScratchFolder folder;
  const std::string path = write_sample(folder);
  const Digest before = TokenDataset(path).fingerprint();
  EXPECT_NO_THROW(TokenDataset(path, {.expected = before}));
  write_sample(folder, 301);
  const std::string message = message_of(ExitCode::data, [&] { TokenDataset(path, {.expected = before}); });
  expect_contains(message, path + ": changed since the checkpoint: its fingerprint is ");
  expect_contains(message, "the checkpoint was trained on the file with fingerprint " + before.to_string());
}

// Applies `damage` to the bytes of the sample file. Returns the error message of opening the damaged file.
std::string opening_damaged(const std::function<void(std::string&)>& damage,
                            DatasetCheck check = DatasetCheck::everything) {
  const ScratchFolder folder;
  const std::string path = write_sample(folder);
  std::string bytes = read_file(path);
  damage(bytes);
  folder.write("train.hxd", bytes);
  const std::string message = message_of(ExitCode::data, [&] { TokenDataset(path, {.check = check}); });
  expect_contains(message, path + ": ");
  return message;
}

// Changes header fields and computes the header's digest again, like a buggy or hostile writer. Returns the error
// message of opening the file.
std::string opening_forged(const std::function<void(DatasetHeader&)>& forge) {
  return opening_damaged([&](std::string& bytes) {
    DatasetHeader header;
    std::memcpy(&header, bytes.data(), sizeof header);
    forge(header);
    header.header = header_digest(header);
    std::memcpy(bytes.data(), &header, sizeof header);
  });
}

// Changes the contents and computes both digests again. Returns the error message of opening the file.
std::string opening_resigned(const std::function<void(std::string&)>& damage,
                             DatasetCheck check = DatasetCheck::everything) {
  return opening_damaged(
      [&](std::string& bytes) {
        damage(bytes);
        DatasetHeader header;
        std::memcpy(&header, bytes.data(), sizeof header);
        header.contents = digest_of(std::string_view(bytes).substr(sizeof header));
        header.header = header_digest(header);
        std::memcpy(bytes.data(), &header, sizeof header);
      },
      check);
}

void set_offset(std::string& bytes, size_t d, int64_t value) {
  std::memcpy(bytes.data() + sizeof(DatasetHeader) + 15 * 2 + d * 8, &value, 8);
}

TEST(TokenDatasetDamage, MissingFileAndFolderAreNamed) {
  expect_contains(message_of(ExitCode::data, [] { TokenDataset("/no/such.hxd"); }), "/no/such.hxd: cannot be opened");
  const ScratchFolder folder;
  expect_contains(message_of(ExitCode::data, [&] { TokenDataset(folder.path()); }), "is not a regular file");
}

TEST(TokenDatasetDamage, WrongMagicIsRefused) {
  expect_contains(opening_damaged([](auto& b) { b[0] = 'X'; }), "is not a token dataset (wrong magic)");
  expect_contains(opening_damaged([](auto& b) { b = std::string(500, 'a'); }), "wrong magic");
}

TEST(TokenDatasetDamage, WrongVersionIsRefused) {
  expect_contains(opening_forged([](auto& h) { h.version = 9; }), "dataset version 9, expected 1");
}

TEST(TokenDatasetDamage, WrongIdSizeIsRefused) {
  expect_contains(opening_forged([](auto& h) { h.bytes_per_id = 3; }), "ids of 3 bytes, expected 2 or 4");
}

TEST(TokenDatasetDamage, TruncatedEmptyAndTooLongFilesAreRefused) {
  expect_contains(opening_damaged([](auto& b) { b.clear(); }), "truncated: 0 bytes");
  expect_contains(opening_damaged([](auto& b) { b.resize(50); }), "truncated: 50 bytes");
  expect_contains(opening_damaged([](auto& b) { b.pop_back(); }), "truncated: 157 bytes, expected 158");
  expect_contains(opening_damaged([](auto& b) { b += 'x'; }), "too long: 159 bytes, expected 158");
}

TEST(TokenDatasetDamage, ImpossibleSizesAreRefusedBeforeAllocation) {
  expect_contains(opening_forged([](auto& h) { h.tokens = INT64_MAX; }), "do not fit a file of 158 bytes");
  expect_contains(opening_forged([](auto& h) { h.documents = INT64_MAX; }), "do not fit a file of 158 bytes");
  expect_contains(opening_forged([](auto& h) { h.documents = -1; }), "do not fit a file of 158 bytes");
  expect_contains(opening_forged([](auto& h) { h.vocab_size = 0; }), "vocabulary of 0 ids");
}

TEST(TokenDatasetDamage, OffsetsPastTheEndOrDecreasingAreRefused) {
  expect_contains(opening_resigned([](auto& b) { set_offset(b, 1, 16); }),
                  "document 0 ends at token 16, expected at most 15, the end of the last document");
  expect_contains(opening_resigned([](auto& b) { set_offset(b, 2, 9); }),
                  "document 1 starts at token 10 and ends at 9");
  expect_contains(opening_resigned([](auto& b) { set_offset(b, 0, 1); }), "first document starts at token 1");
  expect_contains(opening_resigned([](auto& b) { set_offset(b, 3, 14); }), "documents end at token 14, expected 15");
}

TEST(TokenDatasetDamage, IdOutsideTheVocabularyIsRefused) {
  const auto large_id = [](std::string& b) { b[sizeof(DatasetHeader) + 2 * 7 + 1] = 2; };  // sets the id to 7 + 512
  expect_contains(opening_resigned(large_id), "token 7 has id 519, expected 0 to 299");
}

TEST(TokenDatasetDamage, UncheckedIdOutsideTheVocabularyIsFoundWhenItIsRead) {
  const ScratchFolder folder;
  const std::string path = write_sample(folder);
  std::string bytes = read_file(path);
  bytes[sizeof(DatasetHeader) + 2 * 7 + 1] = 2;
  folder.write("train.hxd", bytes);
  const TokenDataset dataset(path, {.check = DatasetCheck::structure});
  std::vector<int32_t> ids(15);
  expect_contains(message_of(ExitCode::data, [&] { dataset.read_ids(0, ids); }), "token 7 has id 519");
}

TEST(TokenDatasetDamage, FlippedBitInAnyByteIsFound) {
  const ScratchFolder folder;
  const std::string path = write_sample(folder, 300, true);
  const std::string sound = read_file(path);
  for (size_t i = 0; i < sound.size(); ++i) {
    std::string bytes = sound;
    bytes[i] = static_cast<char>(bytes[i] ^ (1 << i % 8));
    folder.write("train.hxd", bytes);
    EXPECT_THROW(TokenDataset{path}, Error) << "byte " << i;
  }
}

TEST(TokenDatasetDamage, ShrinkingWhileOpenIsADataErrorNotABusError) {
  const ScratchFolder folder;
  const std::string path = write_sample(folder);
  const TokenDataset dataset(path);
  std::filesystem::resize_file(path, sizeof(DatasetHeader) + 10);
  std::vector<int32_t> ids(15);
  const std::string message = message_of(ExitCode::data, [&] { dataset.read_ids(0, ids); });
  EXPECT_EQ(message,
            path + ": ends at byte 106, expected at least 126 bytes (the file had 158 bytes when it was opened)");
}

TEST(TokenDatasetWriter, LeavesNoFileWithoutFinish) {
  const ScratchFolder folder;
  { TokenDatasetWriter writer(folder / "train.hxd", 300, {}); }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(TokenDatasetWriter, FailedWriteKeepsTheOldFileAndNamesTheReason) {
  const ScratchFolder folder;
  const std::string path = write_sample(folder);
  const std::string before = read_file(path);
  rlimit old_limit{};
  ::getrlimit(RLIMIT_FSIZE, &old_limit);
  const auto old_handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{1000, old_limit.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  const std::string message = message_of(ExitCode::resource, [&] {
    TokenDatasetWriter writer(path, 300, {});
    writer.add_document(std::vector<int32_t>(1000, 1), 1);
    writer.finish();
  });
  ::setrlimit(RLIMIT_FSIZE, &old_limit);
  ::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(message, path + ": cannot be written: File too large");
  EXPECT_EQ(read_file(path), before);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(TokenDatasetWriter, UnwritableFolderIsNamed) {
  expect_contains(message_of(ExitCode::resource, [] { TokenDatasetWriter("/no/such/x.hxd", 300, {}); }),
                  "/no/such/x.hxd: cannot be created: No such file");
}

TEST(TokenDatasetWriter, IdsOutsideTheVocabularyAreABug) {
  const ScratchFolder folder;
  TokenDatasetWriter writer(folder / "train.hxd", 300, {});
  EXPECT_THROW(writer.add_document(std::vector<int32_t>{300}, 1), std::logic_error);
  EXPECT_THROW(writer.add_document(std::vector<int32_t>{1}, 1, std::vector<uint8_t>{1}), std::logic_error);
}

}  // namespace
}  // namespace hexad::data
