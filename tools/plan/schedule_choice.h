// Chooses what the recipe leaves open (`auto`) of the MoE layers' schedule: the simulator prices the graphs of the
// legal schedules, the cheapest ones are tried in steps of the run itself, and MPMoE's Algorithm 1 finds the number of
// chunks of the fastest. Trying loses nothing, as every schedule computes the same.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tools/plan/granularity_search.h"
#include "tools/plan/schedule_prices.h"

namespace hexad::plan {

class ScheduleChoice {
 public:
  /// Predicts the allowed schedules of the recipe and sets the fastest one in the model. Collective, as is whatever
  /// changes it. All but `predictor` outlive it.
  ScheduleChoice(const train::Recipe& recipe, train::ModelInstance& instance, Predictor predictor,
                 const comm::ProcessGroup& world);

  /// Goes on where a run was when it saved `chosen` (the text of its schedule, if it had chosen one) and state(). With
  /// another micro-batch size only the number of chunks is searched for again, from what is known of the old size.
  /// Returns false if the recipe no longer allows that schedule: then it is chosen again.
  bool resume(const std::string& chosen, const std::string& state);
  /// Results so far, as text for a checkpoint.
  std::string state() const;

  bool made() const { return made_; }
  /// The predicted ones, ascending, and behind them those with other numbers of chunks that were tried.
  const std::vector<ScheduleCandidate>& candidates() const { return candidates_; }
  /// The schedule that is set in the model.
  const ScheduleCandidate& current() const { return candidates_[current_]; }
  /// The most steps that may still be trials; Algorithm 1 may need fewer.
  int64_t trials_left() const { return made_ ? 0 : turns_ - turn_; }
  /// True if the search is for the number of chunks.
  bool searching() const { return search_.has_value() && !made_; }

  /// The schedules that the recipe allows, and what memory they need where memory_reuse is open.
  const WithinMemory& memory() const { return memory_; }

  /// Before a step of trial: sets the schedule whose turn it is.
  void begin_trial();
  /// Ends a trial with the times of the step's passes on this rank. The last trial makes the choice.
  void end_trial(const std::vector<PassRecorder::Recording>& passes);

  /// "duplicates drop, ...: predicted 1.20 ms, measured 1.00 ms (+20.0%)".
  static std::string to_string(const ScheduleCandidate& candidate);

 private:
  /// MPMoE's Algorithm 1 over the chunks of schedules that are alike otherwise.
  struct Search {
    moe::MoeSchedule start;
    ChunksRange range;
    int64_t repeats;  // trials of each number of chunks
    plan::GranularitySearch chunks;
  };

  void pick_finalists();
  bool tries_families() const { return turn_ < family_turns_; }
  void end_families();
  void begin_search(const moe::MoeSchedule& start, plan::GranularitySearch::State known);
  void go_on_searching();
  size_t index_of(const moe::MoeSchedule& schedule);
  std::optional<moe::MoeSchedule> allowed(const std::string& text);
  std::optional<Search> search_in(const nlohmann::json& before);
  ChunksRange range_of(const moe::MoeSchedule& schedule);
  std::vector<std::string> finalist_names() const;
  void set(size_t candidate);

  const train::Recipe& recipe_;
  train::ModelInstance& instance_;
  Predictor predictor_;
  const comm::ProcessGroup& world_;
  MemoryNeeds needs_;
  const WithinMemory memory_;
  std::vector<std::pair<moe::MoeSchedule, ChunksRange>> ranges_;  // of schedules with 0 chunks
  std::vector<ScheduleCandidate> candidates_;
  std::vector<size_t> finalists_;  // of different families
  size_t current_ = 0;
  bool made_ = false;
  int64_t turn_ = 0, family_turns_ = 0, turns_ = 0;  // trials done, those of finalists, and all that there may be
  std::optional<Search> search_;
};

}  // namespace hexad::plan
