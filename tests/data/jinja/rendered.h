// Rendering of templates in tests.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "framework/data/jinja/template.h"

namespace hexad::data::jinja {

/// Returns an element of the list `messages`.
inline Value message(const std::string& role, const std::string& content) {
  Object object{ObjectKind::message};
  object.set("role", text_value(role, Origin::model));
  object.set("content", text_value(content, Origin::message));
  return object_value(std::move(object));
}

/// Renders a template, named "t.jinja" in errors, with three messages, the tokens <s> and </s>, and the variable
/// `data`.
inline Text rendered(std::string_view source, Value data = {}) {
  auto messages = std::make_shared<List>();
  messages->items = {message("system", " Be brief. "), message("user", "Hi"), message("assistant", "Yo")};
  const Value list{Value::Data(ListPointer(std::move(messages)))};
  return Template(source, "t.jinja")
      .render({{"messages", list},
               {"add_generation_prompt", boolean(false)},
               {"bos_token", text_value("<s>", Origin::model)},
               {"eos_token", text_value("</s>", Origin::model)},
               {"tools", none()},
               {"data", std::move(data)}});
}

}  // namespace hexad::data::jinja
