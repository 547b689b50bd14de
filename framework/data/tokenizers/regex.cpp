#include "framework/data/tokenizers/regex.h"

#include <algorithm>
#include <array>
#include <cstdint>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "framework/base/error.h"
#include "framework/base/utf8.h"

namespace hexad::data {

using namespace base;
namespace {

constexpr size_t longest_pattern = 64 << 10;  // bytes; patterns of known models are shorter than 1 KiB
constexpr uint32_t quick_steps = 20'000;      // limit of the first attempt of a match
constexpr uint32_t max_steps = 10'000'000;    // limit of the second attempt; a long run of white space needs many steps
constexpr size_t free_attempts = 16;  // second attempts allowed in even the shortest text; see second_attempts()
constexpr size_t bytes_per_attempt = 4096;
constexpr uint32_t max_depth = 100'000;  // maximum depth of nested backtracking
constexpr uint32_t max_heap_kib = 64 << 10;
constexpr size_t largest_stack = size_t{4} << 20;  // maximum bytes of the stack that compiled code uses

template <auto Free>
struct Deleter {
  template <class T>
  void operator()(T* p) const {
    Free(p);
  }
};
using Code = std::unique_ptr<pcre2_code, Deleter<&pcre2_code_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Deleter<&pcre2_match_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Deleter<&pcre2_match_data_free>>;
using Stack = std::unique_ptr<pcre2_jit_stack, Deleter<&pcre2_jit_stack_free>>;

std::string reason_of(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// Returns the maximum number of second attempts (with max_steps) in a text. With known patterns, a match takes about
// one step for each byte of a run of white space. Few matches therefore take more than quick_steps. A text could take
// hours if many matches took more steps.
size_t second_attempts(size_t text_bytes) { return free_attempts + text_bytes / bytes_per_attempt; }

MatchContext limited_context(uint32_t steps) {
  MatchContext context(pcre2_match_context_create(nullptr));
  if (!context) throw std::bad_alloc();
  pcre2_set_match_limit(context.get(), steps);
  pcre2_set_depth_limit(context.get(), max_depth);
  pcre2_set_heap_limit(context.get(), max_heap_kib);
  return context;
}

}  // namespace

struct Regex::Compiled {
  std::string where, pattern;
  Code code;
  MatchContext quick = limited_context(quick_steps), patient = limited_context(max_steps);
  bool may_be_empty = true;  // true if a match may be empty; the end of a text is then searched too

  [[noreturn]] void fail_match(int result) const {
    std::string reason = reason_of(result);
    if (result == PCRE2_ERROR_MATCHLIMIT) reason += cat(", expected at most ", max_steps, " steps per match");
    if (result == PCRE2_ERROR_BADOFFSET)
      reason = "a match ends before it begins; expected a pattern without \\K in a look-ahead";
    fail(ExitCode::data, where, ": the pattern \"", pattern, "\" cannot be matched: ", reason);
  }
  [[noreturn]] void fail_text(size_t bytes) const {
    fail(ExitCode::data, where, ": the pattern \"", pattern, "\" cannot be matched: more than ", second_attempts(bytes),
         " matches in ", bytes, " bytes of text take more than ", quick_steps,
         " steps each; expected a pattern that tries fewer alternatives");
  }
};

Regex::Regex(std::string_view pattern, std::string where, RegexDialect dialect)
    : compiled_(std::make_unique<Compiled>()) {
  compiled_->where = std::move(where);
  const std::string& place = compiled_->where;
  if (pattern.size() > longest_pattern)
    fail(ExitCode::data, place, ": the pattern has ", pattern.size(), " bytes, expected at most ", longest_pattern);
  if (valid_utf8(pattern) != pattern) fail(ExitCode::data, place, ": the pattern is not UTF-8, expected UTF-8 text");
  const std::string translated = pcre_pattern(pattern, place, dialect);
  compiled_->pattern = pattern;
  int error = 0;
  PCRE2_SIZE at = 0;
  compiled_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                      PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C, &error,
                                      &at, nullptr));
  if (!compiled_->code)
    fail(ExitCode::data, place, ": the pattern \"", pattern, "\" is invalid at byte ", at, ": ", reason_of(error));
  uint32_t may_be_empty = 1;
  pcre2_pattern_info(compiled_->code.get(), PCRE2_INFO_MATCHEMPTY, &may_be_empty);
  compiled_->may_be_empty = may_be_empty != 0;
  pcre2_jit_compile(compiled_->code.get(), PCRE2_JIT_COMPLETE);  // if this fails, PCRE2 interprets the pattern
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

void Regex::for_each_match(std::string_view text, const std::function<void(size_t, size_t)>& f) const {
  if (text.empty()) return;
  const MatchData data(pcre2_match_data_create(1, nullptr));  // only the whole match is used
  if (!data) throw std::bad_alloc();
  const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer(data.get());
  const auto match_in = [&](size_t from, pcre2_match_context* context) {
    return pcre2_match(compiled_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                       PCRE2_NO_UTF_CHECK, data.get(), context);
  };
  MatchContext quick, patient;  // null until a match needs `stack`
  Stack stack;
  const auto add_stack = [&] {
    stack.reset(pcre2_jit_stack_create(64 << 10, largest_stack, nullptr));
    quick = limited_context(quick_steps), patient = limited_context(max_steps);
    for (const MatchContext* context : {&quick, &patient}) pcre2_jit_stack_assign(context->get(), nullptr, stack.get());
  };
  const auto match = [&](size_t from, const MatchContext& limits, const MatchContext& limits_with_stack) {
    int result = match_in(from, stack ? limits_with_stack.get() : limits.get());
    if (result == PCRE2_ERROR_JIT_STACKLIMIT && !stack) {  // the default stack has 32 KiB
      add_stack();
      result = match_in(from, limits_with_stack.get());
    }
    return result;
  };
  size_t attempts_left = second_attempts(text.size());
  size_t last = text.npos;  // end of the previous match
  const size_t most = compiled_->may_be_empty ? text.size() : text.size() - 1;
  for (size_t from = 0; from <= most;) {
    int result = match(from, compiled_->quick, quick);
    if (result == PCRE2_ERROR_MATCHLIMIT) {
      if (attempts_left-- == 0) compiled_->fail_text(text.size());
      result = match(from, compiled_->patient, patient);
    }
    if (result == PCRE2_ERROR_NOMATCH) return;
    if (result < 0) compiled_->fail_match(result);
    const size_t begin = ends[0], end = ends[1];
    if (begin > end || end > text.size()) compiled_->fail_match(PCRE2_ERROR_BADOFFSET);  // caused by \K in a look-ahead
    if (end > begin || end != last) f(begin, end);
    last = end;
    from = end > from ? end : from + std::max<size_t>(1, utf8_length(text.substr(from, 4)));
  }
}

}  // namespace hexad::data
