// Functions that iterate over the families and entries of a KernelTable, or construct a table by iterating over them.
#pragma once

#include <ostream>
#include <tuple>
#include <utility>

#include "framework/kernels/kernel_table.h"

namespace hexad::kernels {

/// Name of an entry in the table, printed for example as `swiglu.backward`.
struct EntryName {
  std::string_view family, entry;
  friend std::ostream& operator<<(std::ostream& out, const EntryName& name) {
    return out << name.family << '.' << name.entry;
  }
};

inline constexpr auto families_of_table = KernelTable::families();

template <auto Family>
using FamilyType = std::remove_cvref_t<decltype(std::declval<KernelTable>().*Family)>;

template <class Family>
inline constexpr auto entries_of_family = Family::entries();

/// Returns the name of `Member` in a list of named members, such as the entries() of a family; empty if the list does
/// not contain it.
template <auto Member, class Tuple>
constexpr std::string_view name_in(const Tuple& list) {
  std::string_view name;
  const auto look = [&](const auto& named) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(named.member)>, decltype(Member)>)
      if (named.member == Member) name = named.name;
  };
  std::apply([&](const auto&... named) { (look(named), ...); }, list);
  return name;
}

/// Name of entry `Entry` of family `Family`.
template <auto Family, auto Entry>
inline constexpr EntryName name_of_entry{name_in<Family>(families_of_table),
                                         name_in<Entry>(entries_of_family<FamilyType<Family>>)};

/// Calls f.operator()<Family>(name) for each family, for example with Family = &KernelTable::swiglu.
template <class F>
constexpr void for_each_family(const F& f) {
  constexpr size_t count = std::tuple_size_v<std::remove_const_t<decltype(families_of_table)>>;
  const auto call = [&]<size_t... I>(std::index_sequence<I...>) {
    static_assert((sizeof(FamilyType<std::get<I>(families_of_table).member>) + ...) == sizeof(KernelTable),
                  "KernelTable::families() must list every family of every header");
    (f.template operator()<std::get<I>(families_of_table).member>(std::get<I>(families_of_table).name), ...);
  };
  call(std::make_index_sequence<count>{});
}

/// Calls f.operator()<Family, Entry>(name) for each entry, for example with Entry = &SwigluKernels::backward.
template <class F>
constexpr void for_each_entry(const F& f) {
  for_each_family([&]<auto Family>(std::string_view family) {
    using Kernels = FamilyType<Family>;
    constexpr size_t count = std::tuple_size_v<std::remove_const_t<decltype(entries_of_family<Kernels>)>>;
    static_assert(count * sizeof(void (*)()) == sizeof(Kernels), "entries() of a family must list every entry");
    const auto call = [&]<size_t... I>(std::index_sequence<I...>) {
      constexpr auto& entries = entries_of_family<Kernels>;
      (f.template operator()<Family, std::get<I>(entries).member>(EntryName{family, std::get<I>(entries).name}), ...);
    };
    call(std::make_index_sequence<count>{});
  });
}

/// Makes the table of a backend. `kernels_of.operator()<F>()` must return the backend's kernels of family F, for
/// example F = SwigluKernels.
template <class F>
constexpr KernelTable table_of(const F& kernels_of) {
  KernelTable table;
  for_each_family([&]<auto Family>(std::string_view) {
    table.*Family = kernels_of.template operator()<FamilyType<Family>>();
  });
  return table;
}

/// Makes a table whose entries wrap the entries of another table. For example, the entry matmul.forward is
/// `Wrap<&KernelTable::matmul, &MatmulKernels::forward>::launch`.
template <template <auto Family, auto Entry> class Wrap>
constexpr KernelTable wrapped_table() {
  KernelTable table;
  for_each_entry([&]<auto Family, auto Entry>(const EntryName&) {
    table.*Family.*Entry = Wrap<Family, Entry>::launch;
  });
  return table;
}

}  // namespace hexad::kernels
