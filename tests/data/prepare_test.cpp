#include "framework/data/prepare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "framework/config/recipe.h"
#include "framework/data/training_data.h"
#include "tests/data/scratch_folder.h"

namespace hexad::data {

using namespace base;
namespace {

std::string paragraph(int i) {
  std::string text;
  for (int k = 0; k < 12; ++k) text += cat("sentence ", k, " of paragraph ", i, " speaks of ", i * k % 17, " things. ");
  return text + "\n\n";
}

std::string book(int begin, int end) {
  std::string text;
  for (int i = begin; i < end; ++i) text += paragraph(i);
  return text;
}

std::vector<std::string> documents(std::string_view text, const DocumentSplit& split) {
  std::vector<std::string> result;
  for_each_document(text, split, [&](std::string_view document) { result.emplace_back(document); });
  return result;
}

using Texts = std::vector<std::string>;

TEST(Documents, AFileIsADocument) {
  EXPECT_EQ(documents("one\n\ntwo\n", {}), (Texts{"one\n\ntwo\n"}));
  EXPECT_EQ(documents(" \n\t", {}), (Texts{""})) << "only white space: empty";
  EXPECT_EQ(documents("", {}), (Texts{""}));
}

TEST(Documents, AreCutAtBlankLines) {
  const DocumentSplit split{.rule = DocumentRule::blank_lines, .separator = ""};
  EXPECT_EQ(documents("\n\na\nb\n\n \r\nc\n\n\n", split), (Texts{"a\nb\n", "c\n"}));
  EXPECT_EQ(documents("a", split), (Texts{"a"}));
  EXPECT_EQ(documents("\n", split), Texts{});
}

TEST(Documents, AreCutAtSeparatorLines) {
  const DocumentSplit split{.rule = DocumentRule::separator, .separator = "%"};
  EXPECT_EQ(documents("a%\n\nb\n%\r\nc\n%\n%\nd", split), (Texts{"a%\n\nb\n", "c\n", "", "d"}));
}

TEST(Documents, LongOnesAreCutWhereTextPausesAndKeepEveryByte) {
  const std::string text = book(0, 50) + std::string(3000, 'x') + std::string(1500, '\xc3') + "\n" + book(0, 5);
  std::string joined;
  for (const std::string& piece : documents(text, {.separator = "", .longest_bytes = 1000})) {
    EXPECT_LE(piece.size(), 1000u);
    joined += piece;
  }
  EXPECT_EQ(joined, text);
  for (const std::string& piece : documents(book(0, 50), {.separator = "", .longest_bytes = 2000})) {
    EXPECT_TRUE(piece.ends_with("\n\n"));
  }
}

TEST(Documents, ACutDoesNotSplitAUtf8Character) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "\xe2\x82\xac";
  for (const std::string& piece : documents(text, {.separator = "", .longest_bytes = 16})) {
    EXPECT_EQ(piece.size() % 3, 0u);
  }
}

TEST(ListFiles, SortsWithinFoldersAndSkipsHiddenOnes) {
  const ScratchFolder folder;
  for (const char* name : {"b.txt", "a/z.txt", "a/c.txt", ".hidden", ".git/x"}) folder.write(name, "text");
  EXPECT_EQ(list_files({folder.path()}), (Texts{folder / "a/c.txt", folder / "a/z.txt", folder / "b.txt"}));
  expect_contains(message_of(ExitCode::usage, [] { list_files({"/no/such"}); }), "/no/such: no such file or folder");
  const ScratchFolder empty;
  expect_contains(message_of(ExitCode::data, [&] { list_files({empty.path()}); }), "holds no file to prepare");
}

struct Fixture {
  ScratchFolder folder;
  PrepareOptions options;

  Fixture() {
    folder.write("text/a.txt", book(0, 100));
    folder.write("text/b.txt", book(100, 200));
    options = {.inputs = {folder / "text"}, .output = folder / "out", .vocab_size = 400, .split = {}, .heldout = 0.1};
    options.split.longest_bytes = 2000;
  }
};

TEST(Prepare, WritesWhatItSays) {
  Fixture f;
  const PrepareSummary summary = prepare(f.options);
  EXPECT_EQ(summary.files, 2);
  EXPECT_EQ(summary.vocab_size, 400);
  EXPECT_FALSE(summary.skipped);
  EXPECT_GT(summary.bytes_per_token(), 2.5);
  const std::string text = book(0, 100) + book(100, 200);
  EXPECT_EQ(summary.train.text_bytes + summary.heldout.text_bytes, static_cast<int64_t>(text.size()));
  const TokenDataset train(f.folder / "out/train.hxd"), heldout(f.folder / "out/heldout.hxd");
  EXPECT_EQ(train.documents(), summary.train.documents);
  EXPECT_EQ(train.tokens(), summary.train.tokens);
  EXPECT_EQ(heldout.text_bytes(), summary.heldout.text_bytes);
  EXPECT_EQ(heldout.fingerprint().to_string(), summary.heldout.fingerprint);
  EXPECT_NEAR(static_cast<double>(heldout.documents()) / static_cast<double>(train.documents() + heldout.documents()),
              0.1, 0.08);
  // The tokens are the text.
  const auto tokenizer = load_tokenizer(f.folder / "out/tokenizer.json");
  std::vector<int32_t> ids(static_cast<size_t>(train.offsets()[1]));
  train.read_ids(0, ids);
  EXPECT_EQ(ids.back(), tokenizer->end_of_document());
  EXPECT_TRUE(text.starts_with(tokenizer->decode(ids)) || text.find(tokenizer->decode(ids)) != std::string::npos);
}

TEST(Prepare, TheSameInputGivesTheSameBytes) {
  Fixture a, b;
  prepare(a.options), prepare(b.options);
  for (const auto name : {tokenizer_file_name, train_file_name, heldout_file_name}) {
    EXPECT_EQ(read_file(cat(a.options.output, "/", name)), read_file(cat(b.options.output, "/", name))) << name;
  }
}

TEST(Prepare, ASecondRunSkipsUnlessSomethingChanged) {
  Fixture f;
  const PrepareSummary first = prepare(f.options);
  const PrepareSummary second = prepare(f.options);
  EXPECT_TRUE(second.skipped);
  EXPECT_EQ(second.train, first.train);
  EXPECT_EQ(second.heldout, first.heldout);
  EXPECT_EQ(second.vocab_size, first.vocab_size);

  std::filesystem::resize_file(f.folder / "out/heldout.hxd", 200);
  EXPECT_FALSE(prepare(f.options).skipped) << "damage is repaired";
  f.options.force = true;
  EXPECT_TRUE(prepare(f.options).skipped) << "there is nothing to replace";
  f.options.vocab_size = 300;
  EXPECT_FALSE(prepare(f.options).skipped);
  EXPECT_TRUE(prepare(f.options).skipped);
  f.folder.write("text/b.txt", book(100, 201));
  EXPECT_FALSE(prepare(f.options).skipped);
  f.folder.write("out/summary.json", "{}");
  EXPECT_FALSE(prepare(f.options).skipped);
  EXPECT_TRUE(prepare(f.options).skipped);
}

// Everything in a folder, by name.
std::map<std::string, std::string> contents_of(const std::string& folder) {
  std::map<std::string, std::string> contents;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    contents[entry.path().filename().string()] = entry.is_directory() ? "a folder" : read_file(entry.path().string());
  return contents;
}

TEST(Prepare, DoesNotReplaceAnotherDataset) {
  Fixture f;
  const PrepareSummary first = prepare(f.options);
  const auto before = contents_of(f.options.output);
  const auto refusal = [&] {
    const std::string text = message_of(ExitCode::usage, [&] { prepare(f.options); });
    EXPECT_EQ(contents_of(f.options.output), before);
    return text;
  };
  f.options.vocab_size = 300;
  f.options.split.longest_bytes = 3000;
  const std::string text = refusal();
  expect_contains(text, cat(f.options.output, ": holds another dataset, made 20"));
  expect_contains(text, cat(" from ", f.options.inputs.front(), " (2 files): ", first.train.tokens, " training and ",
                            first.heldout.tokens, " held-out tokens, vocabulary 400. Now other: "));
  expect_contains(text, "--split-bytes 2000 -> 3000, --vocab 400 -> 300.");
  expect_contains(text, "Choose another --output; --force replaces the dataset, and runs");

  f.options.vocab_size = 400;
  f.options.split.longest_bytes = 2000;
  EXPECT_TRUE(prepare(f.options).skipped);
  f.folder.write("text/b.txt", book(100, 201));
  expect_contains(refusal(), "Now other: the text.");
}

TEST(Prepare, OptionsWithoutEffectDoNotMakeAnotherDataset) {
  Fixture f;
  f.options.tokenizer = "bytes";
  prepare(f.options);
  f.options.vocab_size = 300;
  f.options.split.separator = "%";
  EXPECT_TRUE(prepare(f.options).skipped);
  f.options.tokenizer = "bpe";
  expect_contains(message_of(ExitCode::usage, [&] { prepare(f.options); }),
                  "Now other: --tokenizer \"bytes\" -> \"bpe\".");
}

TEST(Prepare, DoesNotReplaceADatasetWithoutASummary) {
  Fixture f;
  prepare(f.options);
  std::filesystem::remove(f.folder / "out/summary.json");
  const std::string text = message_of(ExitCode::usage, [&] { prepare(f.options); });
  expect_contains(text, "holds a dataset that does not say from what it was made: train.hxd (20");
  for (std::string_view name : {train_file_name, heldout_file_name})
    std::filesystem::remove(std::filesystem::path(f.options.output) / name);
  expect_contains(message_of(ExitCode::usage, [&] { prepare(f.options); }), "made: tokenizer.json (20");
  std::filesystem::remove(f.folder / "out/tokenizer.json");
  f.folder.write("out/notes.txt", "mine");
  EXPECT_FALSE(prepare(f.options).skipped) << "other files may lie there";
  EXPECT_EQ(contents_of(f.options.output).at("notes.txt"), "mine");
}

TEST(Prepare, AFailureLeavesTheOldDatasetAsItWas) {
  Fixture f;
  prepare(f.options);
  const auto before = contents_of(f.options.output);
  f.options.force = true;
  f.options.heldout = 0;
  const auto removes_a_text = [&](const PrepareProgress& p) {
    if (p.stage == "encoding") std::filesystem::remove(f.folder / "text/b.txt");
  };
  expect_contains(message_of(ExitCode::data, [&] { prepare(f.options, removes_a_text); }), "b.txt: cannot be opened");
  EXPECT_EQ(contents_of(f.options.output), before);
  f.options.output = f.folder / "new";
  f.folder.write("text/b.txt", book(100, 200));
  expect_contains(message_of(ExitCode::data, [&] { prepare(f.options, removes_a_text); }), "b.txt: cannot be opened");
  EXPECT_FALSE(std::filesystem::exists(f.folder / "new"));
}

TEST(Prepare, HoldsOutTheSameDocumentsWhateverTheFiles) {
  Fixture f;
  const PrepareSummary apart = prepare(f.options);
  f.options.force = true;
  std::filesystem::rename(f.folder / "text/a.txt", f.folder / "text/c.txt");
  const PrepareSummary renamed = prepare(f.options);
  EXPECT_EQ(renamed.heldout.documents, apart.heldout.documents);
  EXPECT_EQ(renamed.heldout.text_bytes, apart.heldout.text_bytes);
}

TEST(Prepare, SmallCorporaStillHaveBothParts) {
  Fixture f;
  f.options.force = true;
  f.options.inputs = {f.folder.write("two.txt", "first document\n\nsecond document\n")};
  f.options.split.rule = DocumentRule::blank_lines;
  for (double heldout : {1e-9, 0.5, 0.999999}) {
    f.options.heldout = heldout;
    const PrepareSummary summary = prepare(f.options);
    EXPECT_EQ(summary.train.documents, 1);
    EXPECT_EQ(summary.heldout.documents, 1);
  }
}

TEST(Prepare, NothingHeldOutLeavesNoHeldOutFile) {
  Fixture f;
  prepare(f.options);
  f.options.heldout = 0;
  f.options.force = true;
  EXPECT_EQ(prepare(f.options).heldout.documents, 0);
  EXPECT_FALSE(std::filesystem::exists(f.folder / "out/heldout.hxd"));
  EXPECT_TRUE(prepare(f.options).skipped);
}

TEST(Prepare, UsesTheByteTokenizerOrAnExistingOne) {
  Fixture f;
  f.options.tokenizer = "bytes";
  const PrepareSummary bytes = prepare(f.options);
  EXPECT_EQ(bytes.vocab_size, 258);
  EXPECT_EQ(bytes.train.tokens, bytes.train.text_bytes + bytes.train.documents);
  std::filesystem::copy(f.folder / "out/tokenizer.json", f.folder / "mine.json");
  f.options.tokenizer = f.folder / "mine.json";
  f.options.output = f.folder / "other";
  EXPECT_EQ(prepare(f.options).tokenizer, bytes.tokenizer);
}

TEST(Prepare, AnyBytesSurvive) {
  Fixture f;
  std::string bytes;
  for (int i = 0; i < 4096; ++i) bytes += static_cast<char>(i * 37 + i / 256);
  f.options.inputs = {f.folder.write("binary", bytes)};
  EXPECT_THROW(prepare(f.options), Error);
  f.options.binary = true;
  f.options.split.longest_bytes = 0;
  f.options.heldout = 0;
  prepare(f.options);
  const TokenDataset train(f.folder / "out/train.hxd");
  std::vector<int32_t> ids(static_cast<size_t>(train.tokens()));
  train.read_ids(0, ids);
  EXPECT_EQ(load_tokenizer(f.folder / "out/tokenizer.json")->decode(ids), bytes);
}

TEST(Prepare, DoesNotReadItsOwnOutput) {
  Fixture f;
  f.options.output = f.options.inputs.front();
  expect_contains(message_of(ExitCode::usage, [&] { prepare(f.options); }),
                  "text: is the --output, which is not read, and --input has no other file");
  f.options.output = f.folder / "out";
  f.options.inputs = {f.folder.path()};
  f.options.output += "/";
  prepare(f.options);
  EXPECT_TRUE(prepare(f.options).skipped);
}

TEST(Prepare, CountsEmptyDocuments) {
  Fixture f;
  f.folder.write("text/empty.txt", "");
  f.folder.write("text/blank.txt", " \n \n");
  EXPECT_EQ(prepare(f.options).empty_documents, 2);
}

TEST(Prepare, ReportsItsProgress) {
  Fixture f;
  std::vector<std::string> stages;
  prepare(f.options, [&](const PrepareProgress& p) {
    EXPECT_LE(p.done_bytes, p.total_bytes);
    if (stages.empty() || stages.back() != p.stage) stages.emplace_back(p.stage);
  });
  EXPECT_EQ(stages, (Texts{"reading", "training the tokenizer", "encoding"}));
}

TEST(Prepare, BadOptionsAndInputsAreNamed) {
  Fixture f;
  const auto message = [&](ExitCode code, auto&& change) {
    PrepareOptions options = f.options;
    change(options);
    return message_of(code, [&] { prepare(options); });
  };
  using enum ExitCode;
  expect_contains(message(usage, [](auto& o) { o.inputs.clear(); }), "no input");
  expect_contains(message(usage, [](auto& o) { o.output.clear(); }), "no output folder");
  expect_contains(message(usage, [](auto& o) { o.heldout = 1; }), "held-out fraction is 1, expected 0 to below 1");
  expect_contains(message(usage, [](auto& o) { o.heldout = NAN; }), "held-out fraction is nan");
  expect_contains(message(usage, [](auto& o) { o.split.longest_bytes = 3; }), "at most 3 bytes");
  expect_contains(message(usage, [](auto& o) { o.split.rule = DocumentRule::separator; }),
                  "--split separator needs the line that stands between documents, --separator, which is empty");
  expect_contains(message(usage, [](auto& o) { o.inputs.push_back(o.inputs.front() + "/./a.txt"); }),
                  "text/./a.txt: is among the --input twice, also as ");
  expect_contains(message(usage, [](auto& o) { o.inputs.push_back(o.inputs.front()); }),
                  "; its text would count twice");
  expect_contains(message(usage, [](auto& o) { o.vocab_size = 100; }), "tokenizer vocabulary of 100 ids");
  expect_contains(message(usage, [](auto& o) { o.inputs = {"/no/such"}; }), "/no/such: no such file");
  expect_contains(message(data, [](auto& o) { o.tokenizer = "/no/tokenizer.json"; }),
                  "/no/tokenizer.json: there is no such file");
  const std::string blank = f.folder.write("blank", " \n");
  expect_contains(message(data, [&](auto& o) { o.inputs = {blank}; }), "without any text (1 empty documents)");
  const std::string single = f.folder.write("single", "one line");
  expect_contains(
      message(data, [&](auto& o) { o.inputs = {single}; }),
      "is one document, of which no part can be held out; cut it into shorter documents (at most 2000 bytes "
      "now) or give --heldout 0");
  expect_contains(message(resource, [](auto& o) { o.output = "/proc/none"; }), "/proc/none: cannot be made");
}

struct Prepared : Fixture {
  TrainingDataOptions opening{.context = 32, .vocab_size = 512, .seed = 3};
  DataConfig config;

  Prepared() {
    prepare(options);
    config.dataset = options.output;
  }
  TrainingData open() const { return open_training_data(config, opening); }
};

TEST(TrainingData, OpensAFolder) {
  const Prepared p;
  const TrainingData data = p.open();
  EXPECT_EQ(data.train->context(), 32);
  EXPECT_EQ(data.train->batch(0, 4).ids.size(), 128u);
  EXPECT_EQ(data.fingerprints.size(), 1u);
  // Everything held out is predicted but the documents' first tokens.
  const TokenDataset heldout(p.folder / "out/heldout.hxd");
  const Batch all = data.heldout->batch(0, data.heldout->size());
  EXPECT_EQ(all.target_count(), heldout.tokens() - heldout.documents());
  int64_t first_bytes = 0;
  for (int64_t d = 0; d < heldout.documents(); ++d) {
    std::vector<int32_t> id(1);
    heldout.read_ids(heldout.offsets()[static_cast<size_t>(d)], id);
    first_bytes += static_cast<int64_t>(data.tokenizer->bytes_of(id[0]).size());
  }
  EXPECT_EQ(all.target_bytes(bytes_per_id(*data.tokenizer)), heldout.text_bytes() - first_bytes);
}

TEST(TrainingData, MixesFoldersMadeWithOneTokenizer) {
  Prepared p;
  p.options.tokenizer = p.folder / "out/tokenizer.json";
  p.options.output = p.folder / "second";
  p.options.inputs = {p.folder / "text/a.txt"};
  prepare(p.options);
  p.config.dataset.clear();
  p.config.mixture = {{p.folder / "out", 3}, {p.folder / "second", 1}};
  const TrainingData data = p.open();
  EXPECT_EQ(data.fingerprints.size(), 2u);
  EXPECT_EQ(data.train->batch(0, 8).count, 8);
  EXPECT_GT(data.heldout->size(), 0);
  p.opening.expected = data.fingerprints;
  EXPECT_NO_THROW(p.open());

  p.options.tokenizer = "bytes";
  p.options.force = true;
  prepare(p.options);
  expect_contains(message_of(ExitCode::data, [&] { p.open(); }), "second/tokenizer.json: is another tokenizer than");
}

TEST(TrainingData, IsShuffledAsTheRecipeSays) {
  Prepared p;
  const auto firsts = [&](std::optional<Shuffle> shuffle) {
    p.config.shuffle = shuffle;
    const TrainingData data = p.open();
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < 50; ++i) ids.push_back(data.train->batch(i, 1).ids[0]);
    return ids;
  };
  EXPECT_EQ(firsts(std::nullopt), firsts(Shuffle::sequences));
  EXPECT_NE(firsts(Shuffle::documents), firsts(Shuffle::sequences));
  p.config.mlm_probability = 0.25;
  EXPECT_NE(firsts(Shuffle::documents), firsts(Shuffle::sequences));
  p.config.mlm_probability = 0;
  p.config.dataset.clear();
  p.config.mixture = {{p.folder / "out", 1}, {p.folder / "out", 1}};
  EXPECT_NE(firsts(Shuffle::documents), firsts(Shuffle::sequences));
}

TEST(TrainingData, ChangesSinceTheCheckpointAreNamed) {
  Prepared p;
  p.opening.expected = p.open().fingerprints;
  p.folder.write("text/b.txt", book(100, 202));
  p.options.force = true;
  prepare(p.options);
  expect_contains(message_of(ExitCode::data, [&] { p.open(); }), "out/train.hxd: changed since the checkpoint");
  p.opening.expected = std::vector<Digest>(2);
  expect_contains(message_of(ExitCode::data, [&] { p.open(); }), "1 datasets, the checkpoint was trained on 2");
}

TEST(TrainingData, AForeignTokenizerIsNamed) {
  const Prepared p;
  make_byte_tokenizer()->save(p.folder / "out/tokenizer.json");
  expect_contains(message_of(ExitCode::data, [&] { p.open(); }), "out/train.hxd: was made with tokenizer ");
}

// Nothing on a device's way checks ids again.
TEST(TrainingData, ADatasetWithMoreIdsThanItsTokenizerIsNamed) {
  const Prepared p;
  const auto tokenizer = load_tokenizer(p.folder / "out/tokenizer.json");
  TokenDatasetWriter writer(p.folder / "out/train.hxd", tokenizer->vocab_size() + 1, tokenizer->fingerprint());
  writer.finish();
  expect_contains(message_of(ExitCode::data, [&] { p.open(); }),
                  "out/train.hxd: has a vocabulary of 401 ids, but tokenizer.json beside it has 400");
}

TEST(TrainingData, AModelVocabularyThatIsTooSmallIsAUsageError) {
  Prepared p;
  p.opening.vocab_size = 399;
  expect_contains(message_of(ExitCode::usage, [&] { p.open(); }), "model.vocab (399) must be at least");
}

TEST(TrainingData, MasksForTheMaskedLmObjective) {
  Prepared p;
  p.config.mlm_probability = 0.25;
  const TrainingData data = p.open();
  const Batch batch = data.train->batch(0, 16);
  EXPECT_NEAR(static_cast<double>(batch.target_count()), 128, 5 * std::sqrt(512 * 0.25 * 0.75));
  p.opening.seed = 4;
  EXPECT_EQ(p.open().heldout->batch(0, 1).ids, data.heldout->batch(0, 1).ids)
      << "held-out masks do not depend on the seed";
}

TEST(TrainingData, MaskedLmRefusesALossMask) {
  Prepared p;
  p.config.mlm_probability = 0.25;
  const auto tokenizer = load_tokenizer(p.folder / "out/tokenizer.json");
  TokenDatasetWriter writer(p.folder / "out/train.hxd", tokenizer->vocab_size(), tokenizer->fingerprint(), true);
  writer.add_document(std::vector<int32_t>{1, 2}, 2, std::vector<uint8_t>{1, 0});
  writer.finish();
  expect_contains(message_of(ExitCode::usage, [&] { p.open(); }), "data.mlm_probability (0.25) must be 0: ");
}

TEST(TrainingData, SyntheticNeedsNoFiles) {
  const TrainingData data = open_training_data({.synthetic = true}, {.context = 8, .vocab_size = 50});
  EXPECT_EQ(data.train->batch(5, 2).target_count(), 16);
  EXPECT_EQ(data.heldout, nullptr);
}

struct Recipe {
  DataConfig data;
  template <class V>
  void fields(V& v) {
    v("data", data, "data");
  }
};

TEST(DataConfig, ExactlyOneKindOfDataIsGiven) {
  const auto problems = [](const std::string& yaml) {
    const ScratchFolder folder;
    config::Problems found;
    check(config::read<Recipe>(config::load(folder.write("r.yaml", yaml), {}), found).data, found);
    return found.text();
  };
  EXPECT_EQ(problems("data: {dataset: x}"), "");
  EXPECT_EQ(problems("data: {synthetic: true}"), "");
  EXPECT_EQ(problems("data: {mixture: [{dataset: x, weight: 2}], packing: joined, check: structure}"), "");
  expect_contains(problems("data: {packing: joined}"), "exactly one of the four, not 0");
  expect_contains(problems("data: {dataset: x, synthetic: true}"), "exactly one of the four, not 2");
  expect_contains(problems("data: {synthetic: true, mlm_probability: 0.1}"), "must be 0 with data.synthetic");
  expect_contains(problems("data: {mixture: [{dataset: x, weight: -1}]}"), "must be greater than 0");
}

}  // namespace
}  // namespace hexad::data
