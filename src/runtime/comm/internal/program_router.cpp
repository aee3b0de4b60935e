#include "runtime/comm/internal/program_router.h"

#include <cstring>

#include "base/error.h"

namespace tessera {

ProgramRouter::ProgramRouter(FrameChannel& channel, const StopState& stop, RemoteFetch& fetch)
    : channel_(channel), stop_(stop), fetch_(fetch) {
  for (const FrameKind kind : {FrameKind::kActorMessage, FrameKind::kFetchRequest})
    channel.on_frame(kind,
                     [this](int from, std::span<const std::byte> bytes) { take(from, bytes); });
  channel.on_sent([this](const RankFrame& frame) { note_sent(frame); });
}

void ProgramRouter::make_entry(int program) {
  const size_t count = program + 1;
  if (open_.size() < count) open_.resize(count), closed_.resize(count);
}

void ProgramRouter::open(int program, ProgramPort& port) {
  const auto lock = channel_.lock();
  make_entry(program);
  open_[program] = &port;
  const auto is_for_it = [program](const EarlyFrame& early) {
    return early.frame.program == program;
  };
  for (const EarlyFrame& early : early_)
    if (is_for_it(early)) deliver(early.from, early.frame);
  std::erase_if(early_, is_for_it);
}

void ProgramRouter::close(int program) {
  const auto lock = channel_.lock();
  make_entry(program);
  open_[program] = nullptr;
  closed_[program] = true;
  // The memory of the program is freed, and after a failure pieces of it may be in flight.
  if (stop_.stopped()) channel_.abandon();
  std::erase_if(early_,
                [program](const EarlyFrame& early) { return early.frame.program == program; });
  fetch_.close(program);
}

void ProgramRouter::take(int from, std::span<const std::byte> bytes) {
  RankFrame frame;
  ensure(bytes.size() == sizeof frame, "a frame is complete");
  std::memcpy(&frame, bytes.data(), sizeof frame);
  make_entry(frame.program);
  if (closed_[frame.program]) return;
  if (open_[frame.program])
    deliver(from, frame);
  else
    early_.push_back({from, frame});
}

void ProgramRouter::deliver(int from, const RankFrame& frame) {
  ProgramPort& port = *open_[frame.program];
  if (frame.kind == FrameKind::kFetchRequest)
    fetch_.take_request(from, frame.request, port);
  else
    fetch_.take_message(frame.program, frame.message, port);
}

void ProgramRouter::note_sent(const RankFrame& frame) {
  const bool is_ready =
      frame.kind == FrameKind::kActorMessage && frame.message.kind == Message::Kind::kReady;
  if (!is_ready) return;
  make_entry(frame.program);
  ProgramPort* port = open_[frame.program];
  if (!port) return;
  port->note_filled(frame.message);
  fetch_.answer_waiting(frame.program, frame.message.to);
}

}  // namespace tessera
