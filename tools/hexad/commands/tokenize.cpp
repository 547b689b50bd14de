#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "framework/base/counted.h"
#include "framework/base/units.h"
#include "framework/data/file.h"
#include "framework/data/tokenizer.h"
#include "framework/telemetry/text_output.h"
#include "tools/hexad/commands/command.h"
#include "tools/hexad/commands/ranks.h"
#include "tools/hexad/usage.h"

namespace hexad::app {
namespace {

struct TokenizeArguments {
  std::string file, tokenizer;
  data::TokenizerChoice choice;
  bool ids = false, decode = false, special = false;
};

void write_result(std::string_view text) {
  telemetry::TextOutput out(1);
  out.write(text);
  out.require_written();
}

void print_ids(const std::vector<int32_t>& ids) {
  std::string text;
  for (const int32_t id : ids) text += fmt::format("{}\n", id);
  write_result(text);
}

void print_summary(const data::Tokenizer& tokenizer, const std::vector<int32_t>& ids, size_t bytes, double seconds) {
  const auto size = static_cast<double>(bytes);
  const auto beginning = tokenizer.beginning_of_document();
  fmt::print("tokenizer {}, vocabulary {}, end of document {}, beginning of document {}, digest {}\n",
             tokenizer.contents().kind, tokenizer.vocab_size(), tokenizer.end_of_document(),
             beginning ? fmt::format("{}", *beginning) : "none", tokenizer.fingerprint().to_string());
  fmt::print("{} of text, {}, {:.2f} bytes per token, {:.2f} MB/s on one core\n", base::human_bytes(size),
             base::counted(std::ssize(ids), "token"), ids.empty() ? 0 : size / static_cast<double>(ids.size()),
             size / 1e6 / std::max(seconds, 1e-9));
}

base::ExitCode run_tokenize(const TokenizeArguments& options) {
  const auto tokenizer = data::load_tokenizer(options.tokenizer, options.choice);
  const std::string text = data::read_file(options.file);
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<int32_t> ids = options.special ? tokenizer->encode_with_special(text) : tokenizer->encode(text);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  if (options.ids) {
    print_ids(ids);
  } else if (options.decode) {
    write_result(tokenizer->decode(ids));
  } else {
    print_summary(*tokenizer, ids, text.size(), seconds.count());
  }
  return base::ExitCode::done;
}

}  // namespace

void add_tokenize(const Program& program) {
  const Command command = program.root.add_command("tokenize", "Show how a tokenizer divides a file into tokens");
  auto o = std::make_shared<TokenizeArguments>();
  command.add_option("file", &o->file, "file to tokenize, which may have any bytes").required().path();
  command
      .add_option(
          "--tokenizer", &o->tokenizer,
          "tokenizer.json, *.tiktoken, tekken.json, *.model (SentencePiece), or a folder with one of them, such "
          "as a prepared folder")
      .required()
      .path();
  command.add_option("--end-of-document", &o->choice.end_of_document, "token that ends documents");
  command.add_option("--tokenizer-pattern", &o->choice.pattern, "pattern of a .tiktoken file, such as cl100k");
  command.add_flag("--special", o->special, "convert special tokens in the text to their ids");
  command.add_flag("--ids", o->ids, "print only the ids, one per line");
  command.add_flag("--decode", o->decode, "print only the text to which the ids decode");
  command.run(on_one_rank(command, [o] {
    if (o->ids && o->decode)
      base::fail(base::ExitCode::usage, "--ids and --decode are given; expected at most one of them");
    return run_tokenize(*o);
  }));
}

}  // namespace hexad::app
