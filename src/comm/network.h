// The ranks of one member and its transport: messages between actors, pieces of registers, meetings
// of all members, and the news of a failure. It knows programs by their numbers only.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "actors/actor.h"
#include "base/tensor.h"
#include "comm/stop_state.h"
#include "comm/transport.h"
#include "copy/box_combine.h"

namespace tessera {

/// A piece of a register that goes to another member: where it lies dense, or how it is packed.
struct SentPiece {
  int64_t offset = 0;  // in a slot, when it lies dense there
  int64_t bytes = 0;
  std::optional<BoxCombine> pack;  // from the slot
  bool in_place = false;           // the receiver has it where it belongs; else it is staged
};

/// What a receiver asks for: all its pieces of a record, which its sender keeps until they are
/// handed back. It may ask before the sender has made them.
struct Ask {
  int program = 0;
  ActorId exchange = 0;  // of the receiver
  int sender = 0;        // rank index
  int tag = 0;           // of pieces in place; that of staged ones is the next
  int64_t record = 0;
};

/// A program as the network sees it: called by whatever thread makes progress, one at a time.
class ProgramPort {
 public:
  virtual ~ProgramPort() = default;
  virtual void take(const Message& message) = 0;
  /// One of its ranks tells another member that it has filled a slot.
  virtual void note_filled(const Message& ready) = 0;
  /// The pieces asked for, and the slot that they lie in.
  struct Answer {
    const std::vector<SentPiece>* pieces = nullptr;
    const std::byte* slot = nullptr;
  };
  /// nullopt: not filled yet
  virtual std::optional<Answer> answer(const Ask& ask) = 0;
};

/// What the members gave at a meeting.
class Meeting {
 public:
  std::span<const std::byte> of(int member) const {
    const auto at = static_cast<size_t>(member);
    return std::span(bytes_).subspan(begins_[at], begins_[at + 1] - begins_[at]);
  }

 private:
  friend class Network;
  std::vector<std::byte> bytes_;
  std::vector<size_t> begins_;
};

/// threads  any, but for meet() and programs, which come from one thread of each member, in the
/// same order on all memory   a step allocates nothing once a step has been run failure  the first
/// one on any member stops all: stop() says so, every wait polls it
class Network {
 public:
  explicit Network(std::unique_ptr<Transport> transport);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  int member() const { return transport_->member(); }
  int members() const { return transport_->members(); }

  // Programs. Each has a number, the same on all members, and is open while its ranks can take
  // messages. What comes before waits; what comes after is dropped.
  int new_program();
  void open(int program, ProgramPort& port);
  void close(int program);
  /// `count` tags that nobody else has for what this member receives.
  int new_tags(int count);

  void send(int to, int program, const Message& message);
  void ask(int to, const Ask& ask);
  void receive(int from, int tag, std::span<std::byte> data, Countdown& under_way);
  /// The group of these members, made when it is new.  waits  for them, and holds up whoever makes
  /// progress here; as Transport::new_group
  int group(const std::vector<int>& members);
  /// As Transport::begin.
  void begin(const Collective& what, int group, const std::byte* source, std::byte* target,
             Countdown& under_way);
  /// Makes room for packing: so many answers at a time, pieces of at most `largest`.
  void reserve_packing(int answers, Bytes largest);
  Bytes packing_bytes() const;

  /// Does what there is to do, unless another thread is at it.  returns  whether there was anything
  bool progress();
  /// Progress by the caller until `is_over` or the run stops or the end; the network's own thread
  /// rests.  returns  is_over()
  bool wait(const std::function<bool()>& is_over, std::chrono::steady_clock::time_point end);

  /// All members meet, and each gets what every other gives. It ends when all have come.
  ///   deadline  from the last sign of a member that is at work (AtWork)
  ///   throws    the failure that stops the run; InternalError that names who did not come in time
  void meet(std::span<const std::byte> mine, Meeting& meeting, Seconds deadline);

  /// The same, but only the first member gets what all give, and the others an empty meeting: for
  /// much that one of them wants.
  void gather(std::span<const std::byte> mine, Meeting& meeting, Seconds deadline);

  struct ClockReading {
    Seconds ahead{0};
    Seconds error{0};  // at most
  };
  /// By how much another member's clock is ahead of that of this one. Of `tries` questions the one
  /// that is answered soonest counts: the other clock was read somewhere on its way, so half of its
  /// round trip is the largest error.
  ///   throws  as meet()
  ///   source  Cristian, Probabilistic clock synchronization, Distributed Computing 3, 1989
  ClockReading compare_clocks(int with, int tries, Seconds deadline);

  StopState& stop() { return stop_; }
  /// Stops all members, if it is the first failure here.
  void fail(const Failure& failure);

  /// A thread that waits relieves the network's own, which rests meanwhile.
  class Relief {
   public:
    explicit Relief(Network& network) : network_(network) {
      network_.waiting_.fetch_add(1, std::memory_order_relaxed);
    }
    ~Relief() { network_.waiting_.fetch_sub(1, std::memory_order_relaxed); }
    Relief(const Relief&) = delete;
    Relief& operator=(const Relief&) = delete;

   private:
    Network& network_;
  };

  /// What takes longer than a deadline, such as storing: as long as this lives its member tells the
  /// others again and again that it is at work, and those that wait for it in a meeting are
  /// patient.
  class AtWork {
   public:
    /// `deadline`: that of who may wait.
    AtWork(Network& network, Seconds deadline);
    ~AtWork() { network_.at_work_.fetch_sub(1, std::memory_order_relaxed); }
    AtWork(const AtWork&) = delete;
    AtWork& operator=(const AtWork&) = delete;

   private:
    Network& network_;
  };

 private:
  using Clock = std::chrono::steady_clock;
  enum class FrameKind : uint8_t { kMessage, kAsk, kMeet, kStop, kAtWork, kAskTime, kTellTime };
  struct Frame {
    FrameKind kind = FrameKind::kMessage;
    int program = 0;
    Message message;
    Ask ask;
  };
  struct OutgoingFrame {
    int to = 0;
    Frame frame;
  };
  struct EarlyFrame {
    int from = 0;
    Frame frame;
  };
  struct WaitingAsk {
    int from = 0;
    Ask ask;
  };
  struct MeetHeader {
    FrameKind kind = FrameKind::kMeet;
    uint64_t total = 0;
  };
  struct TimeFrame {
    FrameKind kind = FrameKind::kTellTime;
    Clock::time_point time;
  };
  struct TimeQuestion {
    int from = 0;
    Clock::time_point came;
  };
  struct TimeAnswer {
    Clock::time_point told, came;
  };
  struct MeetInbox {
    std::vector<std::byte> bytes;
    uint64_t total = 0;
    std::atomic<bool> is_complete{false};
  };
  /// Pieces on their way out: an answer to an ask.
  struct ActiveSend {
    int to = 0;
    Ask ask;
    ProgramPort::Answer answer;
    size_t next = 0;         // piece
    Countdown under_way{0};  // of those that lie dense
    bool is_over = true;
  };
  struct PackingBuffer {
    AlignedBuffer memory;
    Countdown in_use{0};
    const ActiveSend* user = nullptr;
  };
  void serve();
  void beat_within(Seconds deadline);
  void tell_of_work();
  bool step();
  void flush_outbox();
  void take(int from, std::span<const std::byte> bytes);
  void take_frame(int from, const Frame& frame);
  void deliver(int from, const Frame& frame);
  void take_time(std::span<const std::byte> bytes);
  void take_meeting(int from, std::span<const std::byte> bytes);
  bool is_sent_still(const Frame& frame) const;
  bool release_held_back();
  bool start_sending(int to, const Ask& ask);
  void note_filled(const Frame& frame);
  bool push_sends();
  bool push_piece(ActiveSend& send);
  int packed(const ActiveSend& send) const;
  PackingBuffer* free_buffer(int64_t bytes);
  void put_in_outbox(int to, const Frame& frame);
  void answer_questions();
  void meet(std::span<const std::byte> mine, Meeting& meeting, Seconds deadline, bool all_get);
  void send_meeting(int to, std::span<const std::byte> bytes);
  void wait_for_meeting(int from, std::chrono::steady_clock::time_point end, Seconds deadline);
  void read_meeting(Meeting& meeting);
  void write_meeting(std::span<const std::byte> mine);

  std::unique_ptr<Transport> transport_;
  StopState stop_;

  std::mutex progress_;                 // guards all down to the next mutex, and the transport
  std::vector<ProgramPort*> programs_;  // by number; nullptr: not open
  std::vector<bool> closed_;            // by number
  std::vector<EarlyFrame> early_;       // for programs that are not open yet
  std::vector<Frame> held_back_;  // slots that come back while the last bytes of them are still on
                                  // their way out, as the transport sees it
  std::vector<WaitingAsk> waiting_asks_;  // for what is not filled yet
  std::vector<std::unique_ptr<ActiveSend>> sends_;
  std::vector<std::unique_ptr<PackingBuffer>> buffers_;
  int packing_answers_ = 0;
  Bytes packing_largest_{0};
  bool is_abandoned_ = false;
  std::vector<MeetInbox> meetings_;         // by member
  std::map<std::vector<int>, int> groups_;  // by members
  std::vector<std::byte> met_;              // of member 0: where each begins, and what all gave
  std::vector<TimeQuestion> time_questions_;
  TimeAnswer time_answer_;
  std::atomic<bool> has_time_answer_{false};

  std::mutex outbox_mutex_;
  std::vector<OutgoingFrame> outbox_, flushed_;
  std::atomic<size_t> outbox_count_{0};

  std::atomic<int> next_program_{0}, next_tag_{0};
  std::atomic<int> waiting_{0};
  std::atomic<int> at_work_{0};
  std::atomic<Clock::rep> heard_at_work_{0};  // when the last sign of a member that is at work came
  std::atomic<Clock::rep> work_beat_;         // between two signs
  Clock::time_point told_of_work_;            // of the network's own thread
  std::atomic<bool> is_ending_{false};
  std::thread thread_;  // last: it ends before what it uses
};

}  // namespace tessera
