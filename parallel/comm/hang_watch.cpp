#include "parallel/comm/hang_watch.h"

namespace hexad::comm {
namespace {

using base::cat;

// The first character of a note.
constexpr char question = '?', reply = '!', verdict = 'x';

// Calls of listen() between telling the others and ending: time for them to hear it.
constexpr int notice = 5;

}  // namespace

void HangWatch::begin(const Standing& wait, const Standing& own, double limit) {
  if (inquiry_ || !found_.empty()) return;
  ++inquiries_;
  inquiry_.emplace(transport_.topology().rank, wait, own, limit);
}

void HangWatch::hear(const Transport::Note& note, const std::function<Standing()>& own) {
  const std::string rest = note.text.substr(std::min<size_t>(1, note.text.size()));
  if (note.text.empty()) return;
  if (note.text.front() == question) transport_.send_note(note.from, cat(reply, rest, "\n", to_note(own())));
  if (note.text.front() == verdict) {
    // Several find the same at the same time: the first of them speaks.
    if (found_.empty() || note.from < transport_.topology().rank) told_ = rest;
  }
  if (note.text.front() != reply || !inquiry_) return;
  const size_t line = rest.find('\n');
  if (line == rest.npos || rest.substr(0, line) != std::to_string(inquiries_)) return;
  inquiry_->answer(note.from, standing_from(std::string_view(rest).substr(line + 1)));
}

void HangWatch::tell_all(const std::string& hang) {
  const Topology& topology = transport_.topology();
  for (int r = 0; r < topology.size; ++r)
    if (r != topology.rank) transport_.send_note(r, cat(verdict, hang));
}

HangWatch::News HangWatch::listen(const std::function<Standing()>& own) {
  notes_.clear();
  transport_.take_notes(notes_);
  for (const Transport::Note& note : notes_) hear(note, own);
  if (told_) return {.hang = std::make_exception_ptr(ToldByPeer(*std::exchange(told_, {})))};
  if (!found_.empty() && ++told_for_ == notice)
    return {.hang = std::make_exception_ptr(base::Error(base::ExitCode::communication, found_))};
  if (!inquiry_) return {};
  for (int rank : inquiry_->to_ask()) transport_.send_note(rank, cat(question, inquiries_));
  inquiry_->tick();
  if (!inquiry_->over()) return {};
  const Inquiry::Finding finding = inquiry_->finding([this](int rank) { return name_of(transport_.topology(), rank); });
  inquiry_.reset();
  if (finding.moves) return {.moves = true, .quiet_seconds = finding.quiet_seconds};
  found_ = finding.text;
  tell_all(found_);
  return {};
}

}  // namespace hexad::comm
