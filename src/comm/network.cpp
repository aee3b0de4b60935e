#include "comm/network.h"

#include <chrono>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "comm/failure_bytes.h"

namespace tessera {
namespace {

/// Of the progress thread while other threads make progress.
constexpr auto kRest = std::chrono::microseconds(500);

}  // namespace

Network::Network(std::unique_ptr<Transport> transport)
    : channel_(std::move(transport), stop_),
      keep_alive_(channel_, stop_),
      clocks_(channel_, keep_alive_),
      fetch_(channel_),
      programs_(channel_, stop_, fetch_),
      groups_(channel_, channel_.transport()),
      host_(channel_, keep_alive_, stop_) {
  channel_.on_frame(FrameKind::kStop, [this](int, std::span<const std::byte> frame) {
    stop_.fail(failure_from(frame.subspan(1)));
  });
  progress_thread_ = std::thread([this] { make_progress(); });
}

Network::~Network() {
  is_ending_.store(true);
  progress_thread_.join();
}

void Network::make_progress() {
  Backoff backoff;
  while (!is_ending_.load(std::memory_order_relaxed)) {
    keep_alive_.send_heartbeat();
    if (channel_.has_waiting_thread()) {
      std::this_thread::sleep_for(kRest);
      continue;
    }
    try {
      channel_.progress() ? backoff.reset() : backoff.pause();
    } catch (...) {
      fail({process(), "", "", std::current_exception()});
      return;
    }
  }
}

// ---- work that takes its time ----

Network::AtWork::AtWork(Network& network, Seconds deadline) : network_(network) {
  network.beat_within(deadline);
  network.at_work_.fetch_add(1, std::memory_order_relaxed);
}

void Network::beat_within(Seconds deadline) {
  const auto beat = std::min<Clock::duration>(kWorkBeat, clock_time(deadline) / kBeatsOfADeadline);
  work_beat_.store(beat.count(), std::memory_order_relaxed);
}

/// Members wait for the first one, which waits for the others: what it hears of one it passes on to
/// all.
void Network::tell_of_work() {
  const auto beat = Clock::duration(work_beat_.load(std::memory_order_relaxed));
  const bool is_news = member() == 0 && heard_at_work_.load(std::memory_order_relaxed) >
                                            told_of_work_.time_since_epoch().count();
  if ((at_work_.load(std::memory_order_relaxed) == 0 && !is_news) || stop_.stopped()) return;
  const auto now = Clock::now();
  if (now - told_of_work_ < beat) return;
  told_of_work_ = now;
  const std::lock_guard lock(progress_);
  constexpr FrameKind kSign = FrameKind::kAtWork;
  for (int to = 0; to < (member() == 0 ? members() : 1); ++to)
    if (to != member()) transport_->send(to, bytes_of(kSign));
}

// ---- programs ----

int Network::new_program() {
  return next_program_.fetch_add(1);
}

int Network::new_tags(int count) {
  const int first = next_tag_.fetch_add(count);
  ensure(first <= transport_->tags() - count,
         "the transport has tags for every pair of ranks that exchange something");
  return first;
}

void Network::open(int program, ProgramPort& port) {
  const std::lock_guard lock(progress_);
  const auto at = static_cast<size_t>(program);
  if (programs_.size() <= at) programs_.resize(at + 1), closed_.resize(at + 1);
  programs_[at] = &port;
  const auto is_for_it = [program](const EarlyFrame& early) {
    return early.frame.program == program;
  };
  for (const EarlyFrame& early : early_)
    if (is_for_it(early)) deliver(early.from, early.frame);
  std::erase_if(early_, is_for_it);
}

void Network::close(int program) {
  const std::lock_guard lock(progress_);
  const auto at = static_cast<size_t>(program);
  if (programs_.size() <= at) programs_.resize(at + 1), closed_.resize(at + 1);
  programs_[at] = nullptr;
  closed_[at] = true;
  if (stop_.stopped()) {
    // Its memory goes, and pieces of it may be on their way.
    is_abandoned_ = true;
    transport_->abandon();
  }
  std::erase_if(early_,
                [program](const EarlyFrame& early) { return early.frame.program == program; });
  std::erase_if(waiting_asks_,
                [program](const WaitingAsk& waiting) { return waiting.ask.program == program; });
  for (const auto& send : sends_)
    if (send->ask.program == program)
      send->is_over = true;  // only after a failure, or all its pieces have arrived
}

// ---- sending ----

void Network::put_in_outbox(int to, const Frame& frame) {
  {
    const std::lock_guard lock(outbox_mutex_);
    outbox_.push_back({to, frame});
    outbox_count_.store(outbox_.size(), std::memory_order_release);
  }
  progress();
}

void Network::send(int to, int program, const Message& message) {
  put_in_outbox(to, {FrameKind::kMessage, program, message, {}});
}

void Network::ask(int to, const Ask& ask) {
  put_in_outbox(to, {FrameKind::kAsk, ask.program, {}, ask});
}

void Network::flush_outbox() {
  {
    const std::lock_guard lock(outbox_mutex_);
    flushed_.swap(outbox_);
    outbox_count_.store(0, std::memory_order_release);
  }
  for (const OutgoingFrame& out : flushed_) {
    transport_->send(out.to, bytes_of(out.frame));
    if (out.frame.kind == FrameKind::kMessage && out.frame.message.kind == Message::Kind::kReady)
      note_filled(out.frame);
  }
  flushed_.clear();
}

/// Who asked for it before gets it now.
void Network::note_filled(const Frame& frame) {
  ProgramPort* port = programs_[frame.program];
  if (!port) return;
  port->note_filled(frame.message);
  std::erase_if(waiting_asks_, [&](const WaitingAsk& waiting) {
    return waiting.ask.program == frame.program && waiting.ask.exchange == frame.message.to &&
           start_sending(waiting.from, waiting.ask);
  });
}

void Network::receive(int from, int tag, std::span<std::byte> data, Countdown& under_way) {
  const std::lock_guard lock(progress_);
  transport_->receive(from, tag, data, under_way);
}

void Network::reserve_packing(int answers, Bytes largest) {
  const std::lock_guard lock(progress_);
  if (answers <= packing_answers_ && largest <= packing_largest_) return;
  packing_answers_ = std::max(packing_answers_, answers);
  packing_largest_ = std::max(packing_largest_, largest);
  std::erase_if(buffers_, [](const auto& buffer) {
    return buffer->in_use.load(std::memory_order_acquire) == 0;
  });
  for (int i = 0; i < packing_answers_ * kPackedAtOnce; ++i) {
    buffers_.push_back(std::make_unique<PackingBuffer>());
    buffers_.back()->memory = AlignedBuffer(packing_largest_);
  }
}

Bytes Network::packing_bytes() const {
  return Bytes(packing_largest_.value() * packing_answers_ * kPackedAtOnce);
}

/// returns  false when it is not filled yet
bool Network::start_sending(int to, const Ask& ask) {
  const auto answer = programs_[ask.program]->answer(ask);
  if (!answer) return false;
  auto free =
      std::find_if(sends_.begin(), sends_.end(), [](const auto& send) { return send->is_over; });
  if (free == sends_.end()) free = sends_.insert(sends_.end(), std::make_unique<ActiveSend>());
  ActiveSend& send = **free;
  send.to = to;
  send.ask = ask;
  send.answer = *answer;
  send.next = 0;
  send.under_way.store(0, std::memory_order_relaxed);
  send.is_over = false;
  return true;
}

Network::PackingBuffer* Network::free_buffer(int64_t bytes) {
  for (const auto& buffer : buffers_)
    if (buffer->in_use.load(std::memory_order_acquire) == 0 &&
        buffer->memory.size().value() >= bytes)
      return buffer.get();
  return nullptr;
}

/// returns  false when there is no buffer to pack into
bool Network::push_piece(ActiveSend& send) {
  const SentPiece& piece = (*send.answer.pieces)[send.next];
  const int tag = send.ask.tag + (piece.in_place ? 0 : 1);
  const auto size = static_cast<size_t>(piece.bytes);
  if (!piece.pack) {
    send.under_way.fetch_add(1, std::memory_order_relaxed);
    transport_->send_data(send.to, tag, {send.answer.slot + piece.offset, size}, send.under_way);
  } else {
    PackingBuffer* buffer = packed(send) < kPackedAtOnce ? free_buffer(piece.bytes) : nullptr;
    if (!buffer) return false;
    piece.pack->run(buffer->memory.data(), std::array<const std::byte*, 1>{send.answer.slot});
    buffer->user = &send;
    buffer->in_use.store(1, std::memory_order_relaxed);
    transport_->send_data(send.to, tag, {buffer->memory.data(), size}, buffer->in_use);
  }
  ++send.next;
  return true;
}

/// Its buffers that are in use.
int Network::packed(const ActiveSend& send) const {
  return static_cast<int>(std::count_if(buffers_.begin(), buffers_.end(), [&](const auto& buffer) {
    return buffer->user == &send && buffer->in_use.load(std::memory_order_acquire) > 0;
  }));
}

bool Network::push_sends() {
  bool moved = false;
  for (const auto& send : sends_) {
    if (send->is_over) continue;
    while (send->next < send->answer.pieces->size() && push_piece(*send)) moved = true;
    send->is_over = send->next == send->answer.pieces->size() &&
                    send->under_way.load(std::memory_order_acquire) == 0 && packed(*send) == 0;
  }
  return moved;
}

// ---- what comes in ----

bool Network::progress() {
  bool moved = false;
  do {
    const std::unique_lock lock(progress_, std::try_to_lock);
    if (!lock) return moved;  // who holds it looks into the outbox once more
    moved = step() || moved;
    if (is_abandoned_) return false;
  } while (outbox_count_.load(std::memory_order_acquire) > 0);
  return moved;
}

bool Network::step() {
  if (is_abandoned_) return false;
  const bool has_mail = outbox_count_.load(std::memory_order_acquire) > 0;
  if (has_mail) flush_outbox();
  const bool arrived =
      transport_->poll([this](int from, std::span<const std::byte> bytes) { take(from, bytes); });
  answer_questions();
  const bool sent = push_sends();
  return release_held_back() || has_mail || arrived || sent;
}

void Network::take(int from, std::span<const std::byte> bytes) {
  ensure(!bytes.empty(), "a message says what it is");
  switch (static_cast<FrameKind>(bytes[0])) {
    case FrameKind::kMessage:
    case FrameKind::kAsk: {
      Frame frame;
      ensure(bytes.size() == sizeof frame, "a frame is whole");
      std::memcpy(&frame, bytes.data(), sizeof frame);
      return take_frame(from, frame);
    }
    case FrameKind::kMeet: return take_meeting(from, bytes);
    case FrameKind::kAtWork:
      return heard_at_work_.store(Clock::now().time_since_epoch().count(),
                                  std::memory_order_relaxed);
    case FrameKind::kAskTime: return time_questions_.push_back({from, Clock::now()});
    case FrameKind::kTellTime: return take_time(bytes);
    case FrameKind::kStop: return stop_.fail(failure_from(bytes.subspan(1)));
  }
  throw InternalError("a message of an unknown kind came from member " + std::to_string(from));
}

void Network::take_frame(int from, const Frame& frame) {
  const auto program = static_cast<size_t>(frame.program);
  if (program < closed_.size() && closed_[program]) return;
  if (program >= programs_.size() || !programs_[program])
    early_.push_back({from, frame});
  else
    deliver(from, frame);
}

void Network::deliver(int from, const Frame& frame) {
  if (frame.kind == FrameKind::kAsk) {
    if (!start_sending(from, frame.ask)) waiting_asks_.push_back({from, frame.ask});
    return;
  }
  if (frame.message.kind == Message::Kind::kReleased &&
      (!held_back_.empty() || is_sent_still(frame)))
    held_back_.push_back(frame);
  else
    programs_[frame.program]->take(frame.message);
}

/// Does it hand back a slot of which pieces are still being sent, as this side sees it?
bool Network::is_sent_still(const Frame& frame) const {
  return std::any_of(sends_.begin(), sends_.end(), [&](const auto& send) {
    return !send->is_over && send->ask.program == frame.program &&
           send->ask.exchange == frame.message.from;
  });
}

bool Network::release_held_back() {
  size_t kept = 0;
  const auto is_behind_another = [&](const Frame& frame) {
    return std::any_of(held_back_.begin(), held_back_.begin() + static_cast<std::ptrdiff_t>(kept),
                       [&](const Frame& held) {
                         return held.program == frame.program &&
                                held.message.from == frame.message.from;
                       });
  };
  const size_t count = held_back_.size();
  for (size_t i = 0; i < count; ++i) {
    const Frame frame = held_back_[i];
    if (is_sent_still(frame) || is_behind_another(frame))
      held_back_[kept++] = frame;
    else if (ProgramPort* port = programs_[frame.program])
      port->take(frame.message);
  }
  held_back_.resize(kept);
  return kept < count;
}

bool Network::wait(const std::function<bool()>& is_over,
                   std::chrono::steady_clock::time_point end) {
  const Relief relief(*this);
  Waiting waiting;
  for (;;) {
    if (is_over()) return true;
    if (stop_.stopped()) return false;
    if (progress()) {
      waiting.renew();
      continue;
    }
    if (std::chrono::steady_clock::now() > end) return is_over();
    waiting.pause();
  }
}

// ---- failures ----

void Network::fail(const Failure& failure) {
  if (stop_.stopped()) return;
  stop_.fail(failure);
  std::vector<std::byte> frame{static_cast<std::byte>(FrameKind::kStop)};
  const std::vector<std::byte> bytes = to_bytes(failure);
  frame.insert(frame.end(), bytes.begin(), bytes.end());
  channel_.send_to_others(frame);
}

}  // namespace tessera
