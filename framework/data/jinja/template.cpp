#include "framework/data/jinja/template.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "framework/base/counted.h"
#include "framework/config/words.h"
#include "framework/data/jinja/calls.h"
#include "framework/data/jinja/operators.h"
#include "framework/data/jinja/scopes.h"

namespace hexad::data::jinja {
namespace {

class Renderer {
 public:
  Renderer(const std::string& path, const Variables& variables) : path_(path) {
    for (const auto& [name, value] : variables) scopes_.set(name, value);
  }
  Text run(const std::vector<Statement>& statements) {
    execute(statements);
    return std::move(out_);
  }

 private:
  Site site(int line) { return {path_, line, steps_left_}; }

  // --- Statements

  void execute(const std::vector<Statement>& statements) {
    for (const Statement& statement : statements) {
      const Site here = site(statement.line);
      here.spend(1);
      switch (statement.kind) {
        case StatementKind::text:
          write(statement.text, here);
          break;
        case StatementKind::output:
          write(printed(evaluate(statement.expressions.front()), here), here);
          break;
        case StatementKind::choice:
          choose(statement);
          break;
        case StatementKind::loop:
          repeat(statement, here);
          break;
        case StatementKind::set:
          set(statement, here);
          break;
        case StatementKind::scope:
          execute_in_scope(statement.bodies.front());
          break;
        case StatementKind::macro:
          if (!scopes_.outermost())
            here.refuse("the macro '", config::shown(statement.targets.front()),
                        "' is in a loop, a macro or {% generation %}, expected a macro outside of these");
          macros_[statement.targets.front()] = &statement;
          break;
      }
    }
  }

  // Executes statements in a new scope of variables.
  void execute_in_scope(const std::vector<Statement>& statements) {
    scopes_.open();
    execute(statements);
    scopes_.close();
  }

  void write(const Text& text, const Site& here) {
    if (out_.size() + text.size() > largest_text) here.spend_text(out_.size() + text.size());
    here.spend_text(text.size());
    out_.append(text);
  }

  void choose(const Statement& statement) {
    size_t branch = 0;
    while (branch < statement.expressions.size() && !is_truthy(evaluate(statement.expressions[branch]))) ++branch;
    if (branch < statement.bodies.size()) execute(statement.bodies[branch]);
  }

  // Returns the items of a loop. Loops over the characters of a text are not supported.
  std::vector<Value> items_of(const Statement& statement, const Site& here) {
    const Value all = evaluate(statement.expressions.front());
    if (all.get<Undefined>() != nullptr) return {};
    const List* list = all.list();
    const Object* mapping = all.mapping();
    if (list == nullptr && mapping == nullptr)
      here.refuse("loops over ", kind_of(all), ", expected a list, a message or an object");
    const std::vector<Value> items = mapping != nullptr ? keys_of(*mapping, here) : list->items;
    here.spend(std::ssize(items));
    if (statement.expressions.size() == 1) return items;
    std::vector<Value> chosen;
    for (const Value& item : items) {
      scopes_.open();
      assign(statement, item, here);
      if (is_truthy(evaluate(statement.expressions[1]))) chosen.push_back(item);
      scopes_.close();
    }
    return chosen;
  }
  void assign(const Statement& statement, const Value& item, const Site& here) {
    const std::vector<std::string>& targets = statement.targets;
    if (targets.size() == 1) return scopes_.set(targets.front(), item);
    const List* parts = item.list();
    if (parts == nullptr || parts->items.size() != targets.size())
      here.refuse(
          "an item of the loop is ",
          parts == nullptr ? kind_of(item) : base::cat("a list of ", base::counted(std::ssize(parts->items), "value")),
          ", expected a list of ", targets.size(), " values, one for each variable");
    for (size_t i = 0; i < targets.size(); ++i) scopes_.set(targets[i], parts->items[i]);
  }
  void repeat(const Statement& statement, const Site& here) {
    const std::vector<Value> items = items_of(statement, here);
    const int64_t count = std::ssize(items);
    for (int64_t i = 0; i < count; ++i) {
      here.spend(1);
      scopes_.open();
      scopes_.set("loop", object_value({ObjectKind::loop,
                                        {{"index0", number(i)},
                                         {"index", number(i + 1)},
                                         {"first", boolean(i == 0)},
                                         {"last", boolean(i + 1 == count)},
                                         {"length", number(count)}}}));
      assign(statement, items[i], here);
      execute(statement.bodies.front());
      scopes_.close();
    }
    if (items.empty() && statement.bodies.size() > 1) execute_in_scope(statement.bodies[1]);
  }

  void set(const Statement& statement, const Site& here) {
    Value value = evaluate(statement.expressions.front());
    const std::string& name = statement.targets.front();
    if (statement.targets.size() == 1) return scopes_.set(name, std::move(value));
    const Value holder = scopes_.get(name);
    Object* object = holder.object();
    if (object == nullptr || object->kind != ObjectKind::name_space)
      here.refuse("'", config::shown(name), "' is ", kind_of(holder), ", expected a namespace");
    require_no_cycle(value, here);
    if (object->members.size() >= max_members && object->find(statement.targets[1]) == nullptr)
      here.refuse("a namespace has more than ", max_members, " members, the maximum");
    object->set(statement.targets[1], std::move(value));
  }

  // --- Expressions

  Value evaluate(const Expression& e) {
    const Site here = site(e.line);
    here.spend(1);
    const auto child = [&](size_t i) { return evaluate(e.children[i]); };
    switch (e.kind) {
      case ExpressionKind::literal:
        return e.value;
      case ExpressionKind::name:
        return scopes_.get(e.name);
      case ExpressionKind::list: {
        std::vector<Value> items;
        for (const Expression& item : e.children) items.push_back(evaluate(item));
        return list_value(std::move(items), here);
      }
      case ExpressionKind::attribute:
        return member(child(0), e.name, here);
      case ExpressionKind::subscript:
        return element(child(0), child(1), here);
      case ExpressionKind::slice:
        return slice(child(0), child(1), child(2), child(3), here);
      case ExpressionKind::call:
        return call(e, here);
      case ExpressionKind::filter:
        return apply_filter(e.name, child(0), arguments(e), here);
      case ExpressionKind::test:
        return boolean(apply_test(e.name, child(0), here));
      case ExpressionKind::negation:
        return boolean(!is_truthy(child(0)));
      case ExpressionKind::conjunction:
        return first_with(e, false);
      case ExpressionKind::disjunction:
        return first_with(e, true);
      case ExpressionKind::compare:
        return compared(e, here);
      case ExpressionKind::binary: {
        const Value left = child(0);
        return apply_operator(e.name, left, child(1), here);
      }
      case ExpressionKind::conditional:
        return is_truthy(child(0)) ? child(1) : child(2);
    }
    base::fail_invariant(
        base::cat("[jinja] the kind of an expression is ", static_cast<int>(e.kind), "; expected an ExpressionKind"));
  }

  // Returns the first operand whose truth is `wanted`; the last operand if there is none. For `or` of Python, `wanted`
  // is true; for `and`, `wanted` is false.
  Value first_with(const Expression& e, bool wanted) {
    Value value;
    for (const Expression& operand : e.children) {
      value = evaluate(operand);
      if (is_truthy(value) == wanted) break;
    }
    return value;
  }

  Value compared(const Expression& e, const Site& here) {
    Value left = evaluate(e.children.front());
    for (size_t i = 0; i < e.names.size(); ++i) {
      Value right = evaluate(e.children[i + 1]);
      if (!compare(e.names[i], left, right, here)) return boolean(false);
      left = std::move(right);
    }
    return boolean(true);
  }

  // Returns the arguments of a call or filter. The first child is not an argument.
  Arguments arguments(const Expression& e) {
    Arguments all;
    for (size_t i = 1; i < e.children.size(); ++i) {
      const std::string& name = e.names[i - 1];
      Value value = evaluate(e.children[i]);
      if (name.empty()) {
        all.values.push_back(std::move(value));
      } else {
        all.named.emplace_back(name, std::move(value));
      }
    }
    return all;
  }
  Value call(const Expression& e, const Site& here) {
    const Expression& callee = e.children.front();
    if (callee.kind == ExpressionKind::name) {
      const auto macro = macros_.find(callee.name);
      if (macro != macros_.end()) return call_macro(*macro->second, arguments(e), here);
      return call_function(callee.name, arguments(e), here);
    }
    if (callee.kind != ExpressionKind::attribute) here.refuse("calls a value, expected a function or a method");
    const Value object = evaluate(callee.children.front());
    return call_method(object, callee.name, arguments(e), here);
  }

  // Returns the text that a macro writes. A macro can read its parameters and the variables of the outermost scope.
  Value call_macro(const Statement& macro, const Arguments& given, const Site& here) {
    require_parameters(macro, given, here);
    if (++calls_ > max_nested_calls)
      here.refuse("macro calls are nested more than ", max_nested_calls, " levels deep, the maximum");
    here.spend(scopes_.variables());
    Scopes outer_scopes = std::exchange(scopes_, scopes_.macro_scopes());
    Text outer_text = std::exchange(out_, Text());
    const size_t parameters = macro.targets.size() - 1, required = parameters - macro.expressions.size();
    for (size_t i = 0; i < parameters; ++i) {
      const std::string& name = macro.targets[i + 1];
      const auto named = std::ranges::find(given.named, name, &std::pair<std::string, Value>::first);
      Value value = undefined(name);
      if (i < given.values.size()) {
        value = given.values[i];
      } else if (named != given.named.end()) {
        value = named->second;
      } else if (i >= required) {
        value = evaluate(macro.expressions[i - required]);
      }
      scopes_.set(name, std::move(value));
    }
    execute(macro.bodies.front());
    --calls_;
    scopes_ = std::move(outer_scopes);
    return text_value(std::exchange(out_, std::move(outer_text)));
  }
  static void require_parameters(const Statement& macro, const Arguments& given, const Site& here) {
    const size_t parameters = macro.targets.size() - 1;
    if (given.values.size() > parameters)
      here.refuse("the macro '", config::shown(macro.targets.front()), "' is given ",
                  base::counted(std::ssize(given.values), "argument"), ", expected at most ", parameters);
    for (const auto& [name, value] : given.named)
      if (std::find(macro.targets.begin() + 1, macro.targets.end(), name) == macro.targets.end())
        here.refuse("the macro '", config::shown(macro.targets.front()), "' has no parameter '", config::shown(name),
                    "', expected ",
                    parameters == 0 ? "no argument"
                                    : config::nearest_first(name, {macro.targets.begin() + 1, macro.targets.end()}));
  }

  const std::string& path_;
  int64_t steps_left_ = max_steps;
  std::map<std::string, const Statement*> macros_;
  int calls_ = 0;  // number of macro calls in progress
  Scopes scopes_;
  Text out_;
};

}  // namespace

Template::Template(std::string_view source, std::string path)
    : path_(std::move(path)), statements_(parse(source, path_)) {}

Text Template::render(const Variables& variables) const { return Renderer(path_, variables).run(statements_); }

}  // namespace hexad::data::jinja
