// Chooses the open settings (`auto`) of the MoE layers' schedule. The simulator prices the graphs of the legal
// schedules. Regular steps of the run then try the cheapest schedules. MPMoE's Algorithm 1 finds the number of chunks
// of the fastest schedule. If memory_reuse is open, Algorithm 1 finds a number for each strategy, and the fastest pair
// of strategy and number is chosen. Trial steps are not wasted, because every schedule computes the same results up to
// rounding. The time of the first step after a change of schedule does not count, because this step allocates buffers
// and opens connections. Trials compare only schedules that have at least two measured steps.
#pragma once

#include <deque>
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
  /// Predicts the allowed schedules of the recipe and sets the fastest schedule in the model. This constructor and all
  /// functions that change the choice are collective. All arguments except `predictor` must outlive the object.
  ScheduleChoice(const train::Recipe& recipe, train::ModelInstance& instance, Predictor predictor,
                 const comm::ProcessGroup& world);

  /// Continues from a saved run. `chosen` is the text of that run's schedule, or empty if that run had not chosen a
  /// schedule. `state` is the result of that run's state(). Searches only the number of chunks again if the micro-batch
  /// size has changed. This search starts from the results for the old size. Returns false if the recipe no longer
  /// allows the chosen schedule. Also returns false if no schedule was chosen, and the saved trials cannot be
  /// continued. The object then makes a new choice.
  bool resume(const std::string& chosen, const std::string& state);
  /// Returns the results so far, as text for a checkpoint.
  std::string state() const;

  bool made() const { return made_; }
  /// Returns the schedules predicted at the start, the fastest first. Schedules that were added later, for example by
  /// Algorithm 1, follow.
  const std::vector<ScheduleCandidate>& candidates() const { return candidates_; }
  /// Returns the schedule that is set in the model.
  const ScheduleCandidate& current() const { return candidates_[current_]; }
  /// Returns the largest number of steps that may still be trials. Algorithm 1 may need fewer.
  int64_t trials_left() const { return made_ ? 0 : turns_ - turn_; }
  /// True while the search for the number of chunks is running.
  bool searching() const { return !searches_.empty() && !made_; }

  /// Returns the strategies of memory_reuse among the candidates that no trial step has measured so far, except for the
  /// strategy of current(). The strategies are in the order of their predictions.
  std::vector<moe::ReuseStrategy> untried() const;

  /// Returns the schedules that the recipe allows, and their memory needs if memory_reuse is open.
  const WithinMemory& memory() const { return memory_; }

  /// Sets the schedule of the next trial step. Must be called before the step.
  void begin_trial();
  /// Ends a trial step with the times of the step's MoE layers on this rank. Ignores these times in the first step
  /// after a change of schedule. The last trial step makes the choice.
  void end_trial(const std::vector<PassRecorder::LayerTime>& layers);

  /// Outcome of a re-decision.
  struct Redecision {
    double imbalance = 1;    // ratio of the busiest ep rank's rows to the mean, in the predicted layer
    std::string from{};      // name of the schedule before the re-decision
    std::string fastest{};   // name of the schedule that this rank predicts to be the fastest
    double gain = 0;         // ratio of the seconds of `from` to the seconds of `fastest`, minus 1
    bool switched = false;   // true if rank 0 predicts a gain above 5%, so that its `fastest` was set on all ranks
    bool same_bits = false;  // true if `from` and the new schedule give bitwise identical results
  };
  /// Predicts all allowed schedules for the load of the experts in this step. Sets the fastest schedule if it is more
  /// than 5% faster than the current schedule. `loads` has a row for each MoE layer to which tokens were assigned. The
  /// layer with the median imbalance is predicted. Predictions are scaled by the errors that trials have shown.
  /// Requires that the choice has been made. Returns none if there is nothing to compare. The result depends only on
  /// the step's load, on the trials and on earlier switches, which state() contains. Therefore, a resumed run makes the
  /// same decisions. All ranks follow rank 0. Collective.
  std::optional<Redecision> redecide(int64_t step, const ExpertShares& loads);

  /// Returns a text such as "duplicates drop, ...: predicted 1.20 ms, measured 1.00 ms (+20.0%)".
  static std::string to_string(const ScheduleCandidate& candidate);

 private:
  /// A change of the chosen schedule by redecide(), with the names of both schedules.
  struct Switch {
    int64_t step;
    std::string from, to;
  };

  /// A search for the number of chunks by MPMoE's Algorithm 1. Its schedules differ only in their chunks.
  struct Search {
    moe::MoeSchedule start;
    std::vector<int64_t> numbers;
    int64_t repeats;  // measured steps of each number of chunks, equal in all searches
    plan::GranularitySearch chunks;
  };

  void pick_finalists();
  bool tries_families() const { return turn_ < family_turns_; }
  void end_families();
  void begin_searches(const moe::MoeSchedule& like, int64_t repeats);
  void continue_search();
  int64_t steps_to_measure(const Search& search, int64_t n) const;
  Trial next_of(Search& search);
  void end_searches();
  size_t index_of(const moe::MoeSchedule& schedule);
  std::optional<moe::MoeSchedule> allowed(const std::string& text);
  std::vector<Search> searches_in(const nlohmann::json& before);
  const std::vector<int64_t>& numbers_of(const moe::MoeSchedule& schedule);
  std::vector<std::string> finalist_names() const;
  std::vector<size_t> compared_candidates();
  std::vector<ScheduleCandidate> candidates_for(const RoutingLoad& load);
  void set(size_t candidate);

  const train::Recipe& recipe_;
  train::ModelInstance& instance_;
  Predictor predictor_;
  const comm::ProcessGroup& world_;
  MemoryNeeds needs_;
  const WithinMemory memory_;
  // Numbers of chunks to try, by schedule with chunks set to 0. Elements keep their addresses.
  std::deque<std::pair<moe::MoeSchedule, std::vector<int64_t>>> numbers_;
  std::vector<ScheduleCandidate> candidates_;
  std::vector<size_t> finalists_;  // indices of candidates, one for each family
  size_t current_ = 0;
  bool warm_ = false;  // true if the previous trial step had the current schedule
  bool made_ = false;
  // Numbers of trial steps:
  // - turn_: trial steps so far, including steps that are not measured
  // - family_turns_: trial steps of all finalists together
  // - turns_: maximum for the whole choice
  int64_t turn_ = 0, family_turns_ = 0, turns_ = 0;
  // One search for each strategy of memory_reuse: first the strategy of the fastest schedule, then the others in
  // predicted order.
  std::vector<Search> searches_;
  size_t searched_ = 0;           // index of the current search
  int64_t search_end_ = 0;        // trial step at which the current search must end
  std::vector<Switch> switches_;  // changes by redecide(), in the order of their steps
  size_t preferred_ = 0;          // index of the search whose result wins if no other result is distinctly faster
};

}  // namespace hexad::plan
