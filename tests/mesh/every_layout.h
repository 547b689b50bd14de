// Layouts of every legal combination of axis sizes, with and without orders of axes, and messages that refuse layouts.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "framework/base/error.h"
#include "parallel/mesh/layout.h"

namespace hexad::mesh {

inline constexpr Axis axes[] = {Axis::pp, Axis::dp, Axis::cp, Axis::tp, Axis::edp, Axis::ep, Axis::etp};
inline const Placement dense{.view = MeshView::dense}, expert{.view = MeshView::expert};

/// Calls f for the layout of every legal combination of axis sizes of `world` ranks.
template <class F>
void for_each_layout(int world, F f) {
  for (int pp = 1; pp <= world; ++pp)
    for (int cp = 1; cp <= world; ++cp)
      for (int tp = 1; tp <= world; ++tp) {
        if (world % (pp * cp * tp)) continue;
        const int stage = world / pp;
        for (int etp = 1; etp <= stage; ++etp)
          for (int ep = 1; ep <= stage; ++ep)
            if (stage % (etp * ep) == 0) f(Layout({.pp = pp, .cp = cp, .tp = tp, .ep = ep, .etp = etp}, world));
      }
}

/// Orders of axes. Every axis comes first in at least one order. Some orders are illegal with several stages.
inline constexpr const char* orders[] = {"tp-cp-ep-dp-pp", "tp-cp-dp-ep-pp", "cp-ep-tp-dp-pp", "ep-tp-dp-cp-pp",
                                         "pp-dp-ep-cp-tp", "dp-cp-pp-tp-ep", "tp-pp-dp-ep-cp", "ep-cp-tp-pp-dp"};

/// Calls f for every layout of for_each_layout(), without an order of axes and with each legal order of `orders`.
template <class F>
void for_each_ordered_layout(int world, F f) {
  for_each_layout(world, [&](const Layout& m) {
    f(m);
    for (const char* order : orders) {
      try {
        f(Layout({.pp = m.size(Axis::pp),
                  .cp = m.size(Axis::cp),
                  .tp = m.size(Axis::tp),
                  .ep = m.size(Axis::ep),
                  .etp = m.size(Axis::etp),
                  .order = order},
                 world));
      } catch (const IllegalLayout& e) {
        ASSERT_EQ(e.key(), "parallel.order");
        ASSERT_GT(m.size(Axis::pp), 1);
      }
    }
  });
}

/// Returns the message that refuses a layout of these sizes, or the text of the layout if it is legal.
inline std::string refusal(const Sizes& sizes, int world) {
  try {
    return Layout(sizes, world).to_string();
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), base::ExitCode::usage);
    return e.what();
  }
}

}  // namespace hexad::mesh
