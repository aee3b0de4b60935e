#include "runtime/comm/remote_fetch.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {
namespace {

/// The pieces of one answer that are packed and in flight. Every answer has its own share of the
/// buffers, so that an answer that waits for its receiver never blocks another.
constexpr int kBuffersPerAnswer = 2;
/// The requests of a process that may arrive before their slots are filled without an allocation.
constexpr size_t kWaitingPerProcess = 64;

}  // namespace

RemoteFetch::RemoteFetch(FrameChannel& channel) : channel_(channel) {
  waiting_.reserve(kWaitingPerProcess * channel.size());
  channel.on_progress([this] {
    const bool sent = push_sends();
    return release_credits() || sent;
  });
}

int RemoteFetch::new_tags(int count) {
  const int first = next_tag_.fetch_add(count);
  ensure(first <= channel_.transport().tags() - count,
         "the transport has tags for every pair of ranks that exchange something");
  return first;
}

void RemoteFetch::receive(int from, int tag, std::span<std::byte> data, Countdown& in_flight) {
  const auto lock = channel_.lock();
  channel_.transport().recv_data(from, tag, data, in_flight);
}

void RemoteFetch::reserve_staging(int answers, Bytes largest) {
  const auto lock = channel_.lock();
  if (answers <= max_answers_ && largest <= max_piece_) return;
  max_answers_ = std::max(max_answers_, answers);
  max_piece_ = std::max(max_piece_, largest);
  std::erase_if(buffers_, [](const auto& buffer) {
    return buffer->in_use.load(std::memory_order_acquire) == 0;
  });
  for (int i = 0; i < max_answers_ * kBuffersPerAnswer; ++i) {
    buffers_.push_back(std::make_unique<StagingBuffer>());
    buffers_.back()->memory = AlignedBuffer(max_piece_);
  }
}

Bytes RemoteFetch::staging_bytes() const {
  return Bytes(max_piece_.value() * max_answers_ * kBuffersPerAnswer);
}

void RemoteFetch::take_request(int from, const FetchRequest& request, ProgramPort& port) {
  const Request waiting{from, request, &port};
  if (!start_sending(waiting)) waiting_.push_back(waiting);
}

void RemoteFetch::answer_waiting(int program, ActorId exchange) {
  std::erase_if(waiting_, [&](const Request& waiting) {
    return waiting.request.program == program && waiting.request.exchange == exchange &&
           start_sending(waiting);
  });
}

void RemoteFetch::take_message(int program, const Message& message, ProgramPort& port) {
  const bool is_credit = message.kind == Message::Kind::kReleased;
  if (is_credit && (!credits_.empty() || is_sending_to(program, message.from)))
    credits_.push_back({program, message, &port});
  else
    port.take(message);
}

void RemoteFetch::close(int program) {
  const auto is_of_it = [program](const auto& entry) { return entry.request.program == program; };
  std::erase_if(waiting_, is_of_it);
  std::erase_if(credits_, [program](const Credit& credit) { return credit.program == program; });
  // These sends are not over: after a failure, or when the receiver already has all pieces.
  for (const auto& send : sends_)
    if (is_of_it(*send)) send->is_over = true;
}

///   returns  false when the slot is not filled yet
bool RemoteFetch::start_sending(const Request& waiting) {
  const auto answer = waiting.port->answer(waiting.request);
  if (!answer) return false;
  auto free =
      std::find_if(sends_.begin(), sends_.end(), [](const auto& send) { return send->is_over; });
  if (free == sends_.end()) free = sends_.insert(sends_.end(), std::make_unique<ActiveSend>());
  ActiveSend& send = **free;
  send.to = waiting.from;
  send.request = waiting.request;
  send.answer = *answer;
  send.next = 0;
  send.in_flight.store(0, std::memory_order_relaxed);
  send.is_over = false;
  return true;
}

RemoteFetch::StagingBuffer* RemoteFetch::free_buffer(int64_t bytes) {
  for (const auto& buffer : buffers_)
    if (buffer->in_use.load(std::memory_order_acquire) == 0 &&
        buffer->memory.size().value() >= bytes)
      return buffer.get();
  return nullptr;
}

/// returns  false when no staging buffer is free
bool RemoteFetch::push_piece(ActiveSend& send) {
  const SentPiece& piece = (*send.answer.pieces)[send.next];
  const int tag = send.request.tag + (piece.in_place ? 0 : 1);
  const auto size = static_cast<size_t>(piece.bytes);
  if (piece.packed.empty()) {
    send.in_flight.fetch_add(1, std::memory_order_relaxed);
    channel_.transport().send_data(
        send.to, tag, {send.answer.slots[piece.part] + piece.offset, size}, send.in_flight);
  } else {
    StagingBuffer* buffer =
        staged_pieces(send) < kBuffersPerAnswer ? free_buffer(piece.bytes) : nullptr;
    if (!buffer) return false;
    for (const PackedBox& box : piece.packed)
      box.pack.run(buffer->memory.data() + box.begin, send.answer.slots.subspan(box.part, 1));
    buffer->user = &send;
    buffer->in_use.store(1, std::memory_order_relaxed);
    channel_.transport().send_data(send.to, tag, {buffer->memory.data(), size}, buffer->in_use);
  }
  ++send.next;
  return true;
}

/// The number of staging buffers in use for an answer.
int64_t RemoteFetch::staged_pieces(const ActiveSend& send) const {
  return std::count_if(buffers_.begin(), buffers_.end(), [&](const auto& buffer) {
    return buffer->user == &send && buffer->in_use.load(std::memory_order_acquire) > 0;
  });
}

bool RemoteFetch::push_sends() {
  bool moved = false;
  for (const auto& send : sends_) {
    if (send->is_over) continue;
    while (send->next < send->answer.pieces->size() && push_piece(*send)) moved = true;
    send->is_over = send->next == send->answer.pieces->size() &&
                    send->in_flight.load(std::memory_order_acquire) == 0 &&
                    staged_pieces(*send) == 0;
  }
  return moved;
}

/// Is the transport still sending pieces of a slot to this exchange, in the view of this side?
bool RemoteFetch::is_sending_to(int program, ActorId exchange) const {
  return std::any_of(sends_.begin(), sends_.end(), [&](const auto& send) {
    return !send->is_over && send->request.program == program && send->request.exchange == exchange;
  });
}

/// Releases credits. The credits of one consumer keep their order.
bool RemoteFetch::release_credits() {
  size_t kept = 0;
  const auto is_after_another = [&](const Credit& credit) {
    return std::ranges::any_of(std::span(credits_).first(kept), [&](const Credit& other) {
      return other.program == credit.program && other.message.from == credit.message.from;
    });
  };
  const size_t count = credits_.size();
  for (size_t i = 0; i < count; ++i) {
    const Credit credit = credits_[i];
    if (is_sending_to(credit.program, credit.message.from) || is_after_another(credit))
      credits_[kept++] = credit;
    else
      credit.port->take(credit.message);
  }
  credits_.resize(kept);
  return kept < count;
}

}  // namespace tessera
