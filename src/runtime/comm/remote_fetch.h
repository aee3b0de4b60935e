// Transfers pieces of registers between processes. The receiver posts memory and sends a request;
// the sender answers with the pieces, and packs those that are not dense into staging buffers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/tensor/tensor.h"
#include "runtime/comm/box_combine.h"
#include "runtime/comm/internal/frame_channel.h"
#include "runtime/comm/internal/rank_frame.h"

namespace tessera {

/// A box that is packed from the slot of its part.
struct PackedBox {
  size_t part = 0;
  int64_t begin = 0;  // in the message, in bytes
  BoxCombine pack;
};

/// One message of an exchange to another process: a piece that is dense in the slot of its part, or
/// boxes of any parts that are packed one after the other.
struct SentPiece {
  size_t part = 0;
  int64_t offset = 0;  // in the slot, of a dense piece
  int64_t bytes = 0;
  std::vector<PackedBox> packed = {};  // empty: it is dense
  bool in_place = false;  // does the receiver receive it in its place? Otherwise it is staged
};

/// The interface of a program to other processes.
///   threads  the thread that makes progress, one at a time
class ProgramPort {
 public:
  virtual ~ProgramPort() = default;
  virtual void take(const Message& message) = 0;
  /// Called when `ready`, which says that a rank has filled a slot, was sent to another process.
  virtual void note_filled(const Message& ready) = 0;
  /// The requested pieces, and by part the slot that has them. Both stay until the pieces are sent.
  struct Answer {
    const std::vector<SentPiece>* pieces = nullptr;
    std::span<const std::byte* const> slots;
  };
  /// Returns nullopt when a slot is not filled yet.
  virtual std::optional<Answer> answer(const FetchRequest& request) = 0;
};

/// threads  any
class RemoteFetch {
 public:
  explicit RemoteFetch(FrameChannel& channel);

  // These are for the receiver.
  /// Returns the first of `count` tags that no other exchange of this process has.
  int new_tags(int count);
  void receive(int from, int tag, std::span<std::byte> data, Countdown& in_flight);
  void request(int to, const FetchRequest& request) {
    channel_.post(to, {FrameKind::kFetchRequest, request.program, {}, request});
  }

  // These are for the sender.
  /// Allocates staging buffers for `answers` answers at a time, with pieces of at most `largest`.
  void reserve_staging(int answers, Bytes largest);
  Bytes staging_bytes() const;

  // These are for ProgramRouter, with the lock of the channel.
  void take_request(int from, const FetchRequest& request, ProgramPort& port);
  /// Delivers the message; a credit only when the transport has sent all pieces of its slot.
  void take_message(int program, const Message& message, ProgramPort& port);
  /// Answers the requests that waited for the filled slot of `exchange`.
  void answer_waiting(int program, ActorId exchange);
  void close(int program);

 private:
  struct Request {
    int from = 0;
    FetchRequest request;
    ProgramPort* port = nullptr;
  };
  struct Credit {
    int program = 0;
    Message message;
    ProgramPort* port = nullptr;
  };
  /// The answer to a request.
  struct ActiveSend {
    int to = 0;
    FetchRequest request;
    ProgramPort::Answer answer;
    size_t next = 0;         // index of the next piece
    Countdown in_flight{0};  // pieces of the slot that the transport is sending
    bool is_over = true;
  };
  struct StagingBuffer {
    AlignedBuffer memory;
    Countdown in_use{0};
    const ActiveSend* user = nullptr;
  };
  bool start_sending(const Request& waiting);
  bool is_sending_to(int program, ActorId exchange) const;
  bool push_sends();
  bool push_piece(ActiveSend& send);
  int64_t staged_pieces(const ActiveSend& send) const;
  StagingBuffer* free_buffer(int64_t bytes);
  bool release_credits();

  FrameChannel& channel_;
  std::vector<Request> waiting_;  // for slots that are not filled yet
  std::vector<Credit> credits_;   // for slots of which the transport still sends pieces
  std::vector<std::unique_ptr<ActiveSend>> sends_;
  std::vector<std::unique_ptr<StagingBuffer>> buffers_;
  int max_answers_ = 0;
  Bytes max_piece_{0};
  std::atomic<int> next_tag_{0};
};

}  // namespace tessera
