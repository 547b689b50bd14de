#include "framework/data/chat_json.h"

#include <cstddef>
#include <unordered_map>
#include <utility>
#include <vector>

namespace hexad::data {
namespace {

// Moves the last value of each repeated key to the place of its first value.
void join_repeated_keys(ChatJson::object_t& object) {
  std::unordered_map<std::string_view, ChatJson*> first;
  for (auto& [key, value] : object) {
    const auto [found, is_new] = first.try_emplace(key, &value);
    if (!is_new) *found->second = std::exchange(value, ChatJson(ChatJson::value_t::discarded));
  }
  if (first.size() == object.size()) return;
  ChatJson::object_t kept;
  for (auto& [key, value] : object)
    if (!value.is_discarded()) kept.emplace_back(key, std::move(value));
  object.swap(kept);
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
  bool binary(binary_t&) override { return false; }  // a text has none
  bool key(string_t& name) override {
    key_ = std::move(name);
    return true;
  }
  bool start_object(size_t) override { return open(ChatJson::object()); }
  bool start_array(size_t) override { return open(ChatJson::array()); }
  bool end_object() override {
    join_repeated_keys(open_.back()->get_ref<ChatJson::object_t&>());
    return end_array();
  }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool parse_error(size_t, const std::string&, const ChatJson::exception& error) override {
    problem_ = error.what();
    return false;
  }

  ChatJson take() { return std::move(root_); }
  std::string take_problem() { return std::move(problem_); }

 private:
  ChatJson& place(ChatJson&& value) {
    if (open_.empty()) return root_ = std::move(value);
    ChatJson& outer = *open_.back();
    if (outer.is_array()) return outer.get_ref<ChatJson::array_t&>().emplace_back(std::move(value));
    auto& members = outer.get_ref<ChatJson::object_t&>();
    members.emplace_back(std::move(key_), std::move(value));
    return members.back().second;
  }
  bool add(ChatJson&& value) {
    place(std::move(value));
    return true;
  }
  bool open(ChatJson&& value) {
    open_.push_back(&place(std::move(value)));
    return true;
  }

  ChatJson root_;
  std::vector<ChatJson*> open_;  // objects and lists, the outermost first; only the last one grows
  std::string key_;
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
