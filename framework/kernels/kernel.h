// Type of a kernel. Its signature shows which operands the kernel writes.
#pragma once

#include <concepts>
#include <string_view>
#include <type_traits>
#include <utility>

namespace hexad::kernels {

/// Marks an operand that a kernel writes: the kernel replaces its values, adds to them or updates them in place. In
/// calls and implementations, the type of the operand is T instead of Out<T>, and tensors are passed by reference.
/// Tables that wrap another table's kernels (framework/kernels/entries.h) use the mark to find the values that change.
template <class T>
struct Out;

template <class Argument>
inline constexpr bool is_out = false;
template <class T>
inline constexpr bool is_out<Out<T>> = true;

template <class Argument>
struct OperandOf {
  using Type = Argument;
};
template <class T>
struct OperandOf<Out<T>> {
  using Type = std::conditional_t<std::is_trivially_copyable_v<T>, T, const T&>;
};
/// Type of an argument in calls and implementations.
template <class Argument>
using Operand = typename OperandOf<Argument>::Type;

/// True if a kernel with these arguments has an effect: it returns a value to the host, or it has an output. A kernel
/// with one mark may still lack another mark. The parity tests find missing marks, because they compare the changed
/// tensors with the marks.
template <class Answer, class... Arguments>
inline constexpr bool has_effect = !std::is_void_v<Answer> || (is_out<Arguments> || ...);

/// A struct of related operands. S::tensors() lists its members, which are all tensors.
template <class S>
concept OperandStruct = requires {
  S::tensors();
};

/// Calls f(member) for each tensor of S, for example with member = &SwigluGradients::dgate.
template <OperandStruct S, class F>
void for_each_tensor(const F& f) {
  constexpr auto members = S::tensors();
  static_assert(sizeof(S) == members.size() * sizeof(std::declval<S>().*members[0]),
                "S::tensors() must list every member");
  for (const auto member : members) f(member);
}

/// Pointer to a function that implements `Signature`. A default-constructed Kernel is null.
template <class Signature>
class Kernel;

template <class Answer, class... Arguments>
class Kernel<Answer(Arguments...)> {
  static_assert(has_effect<Answer, Arguments...>, "a kernel that returns void must mark its results: Out<Tensor>");

 public:
  using Function = Answer (*)(Operand<Arguments>...);

  constexpr Kernel() = default;
  constexpr Kernel(Function function) : function_(function) {}
  template <class Lambda>
  requires std::is_class_v<Lambda> && std::convertible_to<Lambda, Function>
  constexpr Kernel(Lambda lambda) : function_(lambda) {}

  Answer operator()(Operand<Arguments>... operands) const { return function_(operands...); }
  constexpr Function get() const { return function_; }
  constexpr explicit operator bool() const { return function_ != nullptr; }

 private:
  Function function_ = nullptr;
};

/// Member of a table or of a family of kernels, with its name.
template <class Member>
struct Named {
  std::string_view name;
  Member member;
};
template <class Member>
Named(const char*, Member) -> Named<Member>;

}  // namespace hexad::kernels
