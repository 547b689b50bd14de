#include "tools/train/model/choices.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>

#include <nlohmann/json.hpp>

#include "framework/base/counted.h"
#include "framework/base/error.h"
#include "framework/base/json_kind.h"
#include "framework/base/utf8.h"
#include "framework/data/file.h"

namespace hexad::train {

using namespace base;
namespace {

using Json = nlohmann::json;

constexpr std::string_view white_space = " \t\n\r\f\v";

template <class... Parts>
[[noreturn]] void bad(const std::string& place, const Parts&... parts) {
  fail(ExitCode::data, place, ": ", parts...);
}

std::string text_under(const Json& object, const char* key, const std::string& place) {
  const Json& value = object.at(key);
  if (!value.is_string()) bad(place, "\"", key, "\" is ", base::json_kind(value), ", expected a string");
  return value.get<std::string>();
}

std::vector<std::string> choices_of(const Json& object, const std::string& place) {
  const auto found = object.find("choices");
  if (found == object.end()) bad(place, "has no key \"choices\"; expected a list of texts");
  if (!found->is_array()) bad(place, "\"choices\" is ", base::json_kind(*found), ", expected a list of texts");
  std::vector<std::string> choices;
  for (const Json& choice : *found) {
    if (!choice.is_string())
      bad(place, "choice ", choices.size(), " is ", base::json_kind(choice), ", expected a string");
    choices.push_back(choice.get<std::string>());
    if (choices.back().empty()) bad(place, "choice ", choices.size() - 1, " is empty, expected a text");
  }
  if (choices.empty()) bad(place, "\"choices\" is empty, expected at least one text");
  return choices;
}

int64_t gold_of(const Json& object, int64_t choices, const std::string& place) {
  const auto found = object.find("gold");
  if (found == object.end()) bad(place, "has no key \"gold\"; expected the index of the right choice");
  if (!found->is_number_integer())
    bad(place, "\"gold\" is ", base::json_kind(*found), ", expected a whole number from 0 to ", choices - 1);
  const auto gold = found->get<int64_t>();
  if (gold < 0 || gold >= choices)
    bad(place, "\"gold\" is ", gold, ", expected a whole number from 0 to ", choices - 1,
        "; nearest: ", std::clamp<int64_t>(gold, 0, choices - 1));
  return gold;
}

ChoiceItem item_of(std::string_view text, int64_t line, const std::string& place) {
  const Json object = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (object.is_discarded()) bad(place, "is not JSON; expected {\"context\": ..., \"choices\": [...], \"gold\": 0}");
  if (!object.is_object()) bad(place, "is ", base::json_kind(object), ", expected an object");
  const bool context = object.contains("context");
  if (context == object.contains("query"))
    bad(place, context ? "has both \"context\" and \"query\"" : "has no key \"context\" or \"query\"",
        "; expected one of them");
  ChoiceItem item{.line = line, .context = text_under(object, context ? "context" : "query", place)};
  if (object.contains("delimiter")) item.delimiter = text_under(object, "delimiter", place);
  item.choices = choices_of(object, place);
  item.gold = gold_of(object, std::ssize(item.choices), place);
  return item;
}

// Returns the ids of a text. If the tokenizer has the id beginning-of-document, this id comes first.
std::vector<int32_t> with_beginning(const data::Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> ids = tokenizer.encode(text);
  const auto first = tokenizer.beginning_of_document();
  if (first && (ids.empty() || ids.front() != *first)) ids.insert(ids.begin(), *first);
  return ids;
}

int64_t largest(const std::vector<double>& values) { return std::ranges::max_element(values) - values.begin(); }

std::string position_of(const std::string& path, const ChoiceItem& item) { return cat(path, ":", item.line); }

}  // namespace

std::vector<ChoiceItem> read_choice_items(const std::string& path) {
  const std::string contents = data::read_file(path);
  std::vector<ChoiceItem> items;
  int64_t line = 0;
  for (size_t begin = 0; begin < contents.size();) {
    const size_t end = std::min(contents.find('\n', begin), contents.size());
    const std::string_view text = std::string_view(contents).substr(begin, end - begin);
    begin = end + 1, ++line;
    if (text.find_first_not_of(white_space) == text.npos) continue;
    items.push_back(item_of(text, line, cat(path, ":", line)));
  }
  if (items.empty()) fail(ExitCode::data, "'", path, "' has no item; expected a JSON object on each line");
  return items;
}

LikelihoodRequest choice_request(const data::Tokenizer& tokenizer, const ChoiceItem& item, size_t choice,
                                 int64_t context, const std::string& place) {
  const size_t end = item.context.find_last_not_of(white_space) + 1;  // 0 if the context is only white space
  const std::string before = item.context.substr(0, end);
  const std::string continuation = cat(item.context.substr(end), item.delimiter, item.choices[choice]);
  LikelihoodRequest request;
  size_t known = 1;
  if (before.empty()) {
    request.ids = tokenizer.encode(continuation);
    request.ids.insert(request.ids.begin(), tokenizer.beginning_of_document().value_or(tokenizer.end_of_document()));
  } else {
    request.ids = with_beginning(tokenizer, before + continuation);
    known = with_beginning(tokenizer, before).size();
  }
  request.predicted = std::ssize(request.ids) - static_cast<int64_t>(known);
  if (request.predicted < 1)
    bad(place, "choice ", choice, " adds no token to the ", counted(static_cast<int64_t>(known), "token"),
        " of the context; expected a text that the tokenizer does not merge with the context");
  if (request.predicted > context)
    bad(place, "choice ", choice, " has ", request.predicted, " tokens; expected at most ", context,
        " (model.context)");
  const int64_t cut = std::ssize(request.ids) - (context + 1);
  if (cut > 0) request.ids.erase(request.ids.begin(), request.ids.begin() + cut);
  return request;
}

ChoiceAnswer answer_of(const ChoiceItem& item, std::vector<double> log_likelihoods) {
  std::vector<double> per_character, per_byte;
  for (size_t c = 0; c < item.choices.size(); ++c) {
    if (std::isnan(log_likelihoods[c]))
      fail(ExitCode::numeric, "the log-likelihood of choice ", c, " of the question in line ", item.line,
           " is not a number; expected finite weights and activations of the model");
    per_character.push_back(log_likelihoods[c] / static_cast<double>(utf8_characters(item.choices[c])));
    per_byte.push_back(log_likelihoods[c] / static_cast<double>(item.choices[c].size()));
  }
  ChoiceAnswer answer{
      .chosen = largest(log_likelihoods), .chosen_norm = largest(per_character), .chosen_bytes = largest(per_byte)};
  answer.log_likelihoods = std::move(log_likelihoods);
  return answer;
}

ChoiceScores score_choices(ModelInstance& instance, const Recipe& recipe, const data::Tokenizer& tokenizer,
                           const std::vector<ChoiceItem>& items, const std::string& path) {
  ChoiceScores scores;
  std::vector<LikelihoodRequest> requests;
  for (const ChoiceItem& item : items)
    for (size_t c = 0; c < item.choices.size(); ++c) {
      requests.push_back(choice_request(tokenizer, item, c, recipe.model.context, position_of(path, item)));
      scores.tokens += std::ssize(requests.back().ids) - 1;
    }
  const std::vector<double> sums = log_likelihoods(instance, recipe, requests);
  auto next = sums.begin();
  double right = 0, right_norm = 0, right_bytes = 0;
  for (const ChoiceItem& item : items) {
    const auto end = next + std::ssize(item.choices);
    scores.answers.push_back(answer_of(item, {next, end}));
    next = end;
    right += scores.answers.back().chosen == item.gold ? 1 : 0;
    right_norm += scores.answers.back().chosen_norm == item.gold ? 1 : 0;
    right_bytes += scores.answers.back().chosen_bytes == item.gold ? 1 : 0;
  }
  const auto count = static_cast<double>(items.size());
  scores.acc = right / count, scores.acc_norm = right_norm / count, scores.acc_bytes = right_bytes / count;
  return scores;
}

}  // namespace hexad::train
