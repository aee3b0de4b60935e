// The actor state machine: when may a task act, and what does its act say to whom. Pure: no clock,
// no threads, no memory of tensors; the runtime and the simulator drive the same machine.
//
// An actor produces registers (each with slots) and consumes registers of other actors. It may act
// when every register that it consumes has a filled slot and every register that it produces has a
// free one. Acting fills a slot of each produced register and tells the consumers; it hands each
// consumed slot back to its producer. A slot is free again when all its consumers handed it back.
// Records are numbered from 0 and are taken in order.
//
// Source: OneFlow (Yuan et al., arXiv 2110.15032), register counters; marked graphs (Commoner,
// Holt, Even, Pnueli, 1971).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

using ActorId = int;
/// A register as its producer numbers it: unique among all the actors of a run.
using RegisterId = int;

/// A register that an actor consumes.
struct InPort {
  RegisterId reg = 0;
  ActorId producer = 0;
};

/// A register that an actor produces.
struct OutPort {
  RegisterId reg = 0;
  int slots = 1;                   // >= 1: records that may be alive at once
  std::vector<ActorId> consumers;  // each hands every slot back once
};

struct ActorDescription {
  ActorId id = 0;
  std::string name;
  std::vector<InPort> inputs;
  std::vector<OutPort> outputs;
};

/// What actors say to each other.
struct Message {
  enum class Kind : uint8_t { kReady, kReturned };
  Kind kind = Kind::kReady;
  ActorId to = 0;
  RegisterId reg = 0;
  int slot = 0;
  int64_t record = 0;
  ActorId from = 0;

  bool operator==(const Message&) const = default;
};

/// One act: the record and the slots that it reads and writes, in the order of the description's
/// ports.
struct Act {
  int64_t record = 0;
  std::vector<int> input_slots;
  std::vector<int> output_slots;
};

/// One actor's counters.
///
///   memory   allocates in the constructor, and when a producer turns out to use more slots than
///   ever before: nothing in the steady state threads  none of its own; one caller at a time
class Actor {
 public:
  /// Throws InternalError when a port is described twice or a register has no slot.
  explicit Actor(ActorDescription description);

  const ActorDescription& description() const { return description_; }

  /// Takes a message sent to this actor.
  /// throws  InternalError when it is for another actor or for a register that the actor does not
  /// have, repeats a record, fills a slot
  ///         that is still full, or returns a slot that its sender does not hold
  void receive(const Message& message);

  /// May it act now? Never between begin() and finish().  time O(1)
  bool ready() const { return !acting_ && missing_inputs_ == 0 && blocked_outputs_ == 0; }

  /// Is there a free slot in every register that it produces? Then what fills them may come before
  /// what it reads is announced.
  bool has_room() const { return !acting_ && blocked_outputs_ == 0; }
  /// The slot of output port `port` that the next act fills.  requires  has_room()
  int next_slot(size_t port) const { return outputs_[port].next; }

  /// Claims slots for the next record.  requires  ready()
  const Act& begin();

  /// That which was begun last.
  const Act& act() const { return act_; }

  /// Ends the act begun last: appends kReady to the consumers of what it wrote, then kReturned to
  /// the producers of what it read, each in the order of the description.  requires  begin()
  /// without a finish()
  ///   note  a register without consumers has its slot free again at once
  void finish(std::vector<Message>& messages);

  /// Is the next record of input port `port` here?  requires  not acting
  bool has_input(size_t port) const { return inputs_[port].next >= 0; }

  /// Did all readers of `reg`, which it produces, but for `except` hand every slot back? Who writes
  /// over the bytes of a register waits for that.
  bool handed_back(RegisterId reg, ActorId except) const;

  /// The readers that still hold a slot of `reg`, in the order of the description.
  std::vector<ActorId> holders(RegisterId reg) const;

  /// How many records it has begun.
  int64_t records() const { return next_record_; }

  /// All slots home and nothing waiting: it may be taken apart.
  bool drained() const;

  /// What keeps it from acting, for deadlines: "waits for register 7 of actor 3, record 2", "waits
  /// for a free slot of register 4, held by actors 5, 6", all of them with "; " between, or "acts
  /// on record 2", or "ready".
  std::string waits_for() const;

 private:
  static constexpr int64_t kEmpty = -1;

  /// What has come in on a port.
  struct Input {
    RegisterId reg = 0;
    int first = 0;   // its slots are [first, first + slots) of in_records_
    int slots = 0;   // as many as were ever used, and some
    int next = -1;   // slot of the next record; -1: not there yet
    int filled = 0;  // slots that hold a record
  };
  /// What is out on a port. Records go around the slots: record r stands in slot r % slots, and
  /// since every consumer takes records in order, that slot is also the first to come home.
  struct Output {
    RegisterId reg = 0;
    int first = 0;       // its slots are [first, first + slots) of out_records_ and holders_
    int first_held = 0;  // of held_: slot * consumers + consumer
    int slots = 0;
    int next = 0;  // slot of the next record
    int out = 0;   // slots that are not home
  };

  void check_description() const;
  void add_input(const InPort& port);
  void add_output(const OutPort& port);
  void take_ready(const Message& message);
  void take_returned(const Message& message);
  void grow(size_t port, int slots);
  int64_t& record_in(const Input& input, int slot) { return in_records_[input.first + slot]; }
  int64_t record_in(const Input& input, int slot) const { return in_records_[input.first + slot]; }
  int64_t& record_in(const Output& output, int slot) { return out_records_[output.first + slot]; }
  int64_t record_in(const Output& output, int slot) const {
    return out_records_[output.first + slot];
  }
  int find_record(const Input& input, int64_t record) const;  // its slot; -1: not there
  bool is_blocked(const Output& output) const { return record_in(output, output.next) != kEmpty; }
  size_t output_of(RegisterId reg) const;
  bool holds(size_t port, size_t consumer) const;
  void send_ready(size_t port, std::vector<Message>& messages);
  void send_returned(size_t port, std::vector<Message>& messages);
  std::string blocked_text(size_t port) const;
  [[noreturn]] void fail(const std::string& what) const;

  ActorDescription description_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::vector<int64_t> in_records_, out_records_;  // by slot: its record, or kEmpty
  std::vector<int> holders_;   // by output slot: how many consumers did not hand it back
  std::vector<uint8_t> held_;  // by output slot and consumer: not yet handed back
  Act act_;
  int64_t next_record_ = 0;
  int missing_inputs_ = 0;   // ports without the next record
  int blocked_outputs_ = 0;  // ports whose next slot is not free
  bool acting_ = false;
};

}  // namespace tessera
