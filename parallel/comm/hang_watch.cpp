#include "parallel/comm/hang_watch.h"

#include <utility>

namespace hexad::comm {
namespace {

using base::cat;
using base::ExitCode;

// First characters of notes, which identify their kinds.
constexpr char question = '?', reply = '!', hang = 'x', loss = 'l';

// Number of calls of listen() between the announcement of a finding and the end of the job. In this time, the other
// ranks receive the announcement.
constexpr int notice = 5;

}  // namespace

void HangWatch::begin(const Standing& wait, const Standing& own, double limit, Search search) {
  if (asking(search) || found_) return;
  ++inquiries_;
  search_ = search;
  inquiry_.emplace(transport_.topology().rank, wait, own, limit);
}

void HangWatch::handle_note(const Transport::Note& note, const std::function<Standing()>& own) {
  const std::string rest = note.text.substr(std::min<size_t>(1, note.text.size()));
  if (note.text.empty()) return;
  const char kind = note.text.front();
  if (kind == question) transport_.send_note(note.from, cat(reply, rest, "\n", to_note(own())));
  if (kind == hang || kind == loss) {
    // Several ranks may detect the same hang at the same time. The lowest of these ranks reports it.
    if (!found_ || note.from < transport_.topology().rank)
      received_.emplace(kind == hang ? ExitCode::communication : ExitCode::peer_lost, rest);
  }
  if (kind != reply || !inquiry_) return;
  const size_t line = rest.find('\n');
  if (line == rest.npos || rest.substr(0, line) != std::to_string(inquiries_)) return;
  inquiry_->answer(note.from, parse_standing(std::string_view(rest).substr(line + 1)));
}

void HangWatch::announce(const base::Error& found) {
  const Topology& topology = transport_.topology();
  const char kind = found.code() == ExitCode::peer_lost ? loss : hang;
  for (int r = 0; r < topology.size; ++r)
    if (r != topology.rank) transport_.send_note(r, cat(kind, found.what()));
}

HangWatch::News HangWatch::listen(const std::function<Standing()>& own) {
  notes_.clear();
  transport_.take_notes(notes_);
  for (const Transport::Note& note : notes_) handle_note(note, own);
  if (received_) return {.hang = std::make_exception_ptr(*std::exchange(received_, {}))};
  if (found_ && ++listens_since_finding_ == notice) return {.hang = std::make_exception_ptr(*found_)};
  if (!inquiry_) return {};
  for (int rank : inquiry_->ranks_to_ask()) transport_.send_note(rank, cat(question, inquiries_));
  inquiry_->tick();
  if (!inquiry_->over()) return {};
  const Inquiry::Finding finding = inquiry_->finding([this](int rank) { return name_of(transport_.topology(), rank); });
  inquiry_.reset();
  const bool for_lost = search_ == Search::lost_ranks;
  if (for_lost && !finding.silence) return {};
  if (finding.moves) return {.moves = true, .quiet_seconds = finding.quiet_seconds};
  found_.emplace(for_lost ? ExitCode::peer_lost : ExitCode::communication, finding.text);
  announce(*found_);
  return {};
}

}  // namespace hexad::comm
