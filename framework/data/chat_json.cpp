#include "framework/data/chat_json.h"

#include <cstddef>
#include <unordered_map>
#include <utility>
#include <vector>

namespace hexad::data {
namespace {

using Members = std::vector<std::pair<std::string, ChatJson>>;

// Returns an object with these members. Moves the last value of a repeated key to the place of the first.
ChatJson object_of(Members&& members) {
  ChatJson made = ChatJson::object();
  auto& object = made.get_ref<ChatJson::object_t&>();
  object.reserve(members.size());  // growth would copy the values, and copies of deeply nested JSON are recursive
  std::unordered_map<std::string_view, ChatJson*> places;
  for (auto& [key, value] : members) {
    const auto [place, is_new] = places.try_emplace(key, nullptr);
    if (is_new) {
      object.emplace_back(key, std::move(value));
      place->second = &object.back().second;
    } else {
      *place->second = std::move(value);
    }
  }
  return made;
}

ChatJson list_of(ChatJson::array_t&& items) {
  ChatJson made = ChatJson::array();
  made.get_ref<ChatJson::array_t&>() = std::move(items);
  return made;
}

// Receives the values of a text from the parser.
class Builder final : public nlohmann::json_sax<ChatJson> {
 public:
  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // JSON text has no binary values
  bool start_object(size_t) override {
    open_.push_back({.is_object = true});
    return true;
  }
  bool key(string_t& name) override {
    open_.back().members.emplace_back(std::move(name), nullptr);
    return true;
  }
  bool end_object() override {
    ChatJson made = object_of(std::move(open_.back().members));
    open_.pop_back();
    return add(std::move(made));
  }
  bool start_array(size_t) override {
    open_.push_back({.is_object = false});
    return true;
  }
  bool end_array() override {
    ChatJson made = list_of(std::move(open_.back().items));
    open_.pop_back();
    return add(std::move(made));
  }
  bool parse_error(size_t, const std::string&, const ChatJson::exception& error) override {
    problem_ = error.what();
    return false;
  }

  ChatJson take() { return std::move(root_); }
  std::string take_problem() { return std::move(problem_); }

 private:
  // An object or a list whose end has not been parsed.
  struct Open {
    bool is_object;
    Members members = {};
    ChatJson::array_t items = {};
  };

  bool add(ChatJson&& value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().is_object) {
      open_.back().members.back().second = std::move(value);
    } else {
      open_.back().items.push_back(std::move(value));
    }
    return true;
  }

  ChatJson root_;
  std::vector<Open> open_;  // the outermost first
  std::string problem_;
};

}  // namespace

std::string parse_chat_json(std::string_view text, ChatJson& json) {
  Builder builder;
  const bool parsed = ChatJson::sax_parse(text, &builder);
  json = parsed ? builder.take() : ChatJson();
  return builder.take_problem();
}

}  // namespace hexad::data
