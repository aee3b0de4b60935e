// The actor state machine: when a task may act, and which messages an act sends. It is pure: it has
// no clock, no threads and no memory of tensors. The runtime and the simulator drive the same
// machine.
//
// An actor produces registers (each with slots) and consumes registers of other actors. It may act
// when every register that it consumes has a filled slot and every register that it produces has a
// free slot. An act fills a slot of each produced register and notifies the consumers; it releases
// each consumed slot to its producer. A slot is free again when all its consumers have released it.
// Iterations are numbered from 0 and are executed in order.
//
// Actors may act at different rates: one that acts for each micro-batch reads the same slot of a
// weight in all acts of a step, and fills a slot of an accumulated gradient with all of them.
//
// Source: OneFlow (Yuan et al., arXiv 2110.15032), register counters; marked graphs (Commoner,
// Holt, Even, Pnueli, 1971); different rates: synchronous data flow (Lee, Messerschmitt, 1987).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

using ActorId = int;
/// A register as its producer numbers it: unique among all the actors of a run.
using RegisterId = int;

/// A register that an actor consumes.
struct InPort {
  RegisterId reg = 0;
  ActorId producer = 0;
  int acts_per_slot = 1;  // >= 1: acts that read a slot before it is released
  /// Of the register, or a guess: the actor allocates when the producer uses more.
  int slots = 8;
};

/// A register that an actor produces.
struct OutPort {
  RegisterId reg = 0;
  int slots = 1;                   // >= 1: iterations that may be live at once
  std::vector<ActorId> consumers;  // each releases every slot once
  int acts_per_slot = 1;           // >= 1: acts that fill a slot before its consumers are notified
};

struct ActorDescription {
  ActorId id = 0;
  std::string name;
  std::vector<InPort> inputs;
  std::vector<OutPort> outputs;
};

/// A message between actors: a slot is filled, or its reader has released it.
struct Message {
  enum class Kind : uint8_t { kReady, kReleased };
  Kind kind = Kind::kReady;
  ActorId to = 0;
  RegisterId reg = 0;
  int slot = 0;
  int64_t iteration = 0;  // of the register: it is filled once in each
  ActorId from = 0;

  bool operator==(const Message&) const = default;
};

/// One act: its number and the slots that it reads and writes, in the order of the description's
/// ports. Act i reads and fills iteration i / acts_per_slot of a register.
struct Act {
  int64_t iteration = 0;
  std::vector<int> input_slots;
  std::vector<int> output_slots;
};

/// One actor's counters.
///
///   memory   allocates in the constructor, and when a producer uses more slots than ever before;
///            nothing in the steady state
///   threads  none of its own; one caller at a time
class Actor {
 public:
  /// Throws InternalError when a port is described twice, a register has no slot, or a slot has no
  /// act.
  explicit Actor(ActorDescription description);

  const ActorDescription& description() const { return description_; }

  /// Takes a message sent to this actor.
  ///   throws  InternalError when it is for another actor or for a register that the actor does not
  ///           have, repeats an iteration, fills a slot that is still full, or releases a slot that
  ///           its sender does not hold
  void receive(const Message& message);

  /// Whether it may act now; false between begin() and finish().  time O(1)
  bool ready() const { return !acting_ && missing_inputs_ == 0 && blocked_outputs_ == 0; }

  /// Whether every register that it produces has a free slot. Then data may be received into these
  /// slots before the inputs are ready.
  bool has_free_slots() const { return !acting_ && blocked_outputs_ == 0; }
  /// The slot of output port `port` that the next act fills.  requires  has_free_slots()
  int next_slot(size_t port) const { return outputs_[port].next; }

  /// Claims slots for the next iteration.  requires  ready()
  const Act& begin();

  /// The act that was begun last.
  const Act& act() const { return act_; }

  /// Ends the act begun last: appends kReady for the consumers of the slots that it has completed,
  /// then kReleased for the producers of the slots that it has read for the last time, each in the
  /// order of the description. The slot of a register without consumers is free again at once.
  ///   requires  begin() without a finish()
  void finish(std::vector<Message>& messages);

  /// Whether the next iteration of input port `port` has arrived.  requires  not acting
  bool has_input(size_t port) const { return inputs_[port].next >= 0; }

  /// Whether all readers of `reg`, which it produces, except `except` have released every slot. An
  /// actor that overwrites the bytes of a register waits for that.
  bool is_released(RegisterId reg, ActorId except) const;

  /// The readers that still hold a slot of `reg`, in the order of the description.
  std::vector<ActorId> holders(RegisterId reg) const;

  /// The number of acts that it has begun.
  int64_t iterations() const { return next_iteration_; }

  /// Whether all slots are released, none is filled in part, and no input waits: the actor may be
  /// destroyed.
  bool is_quiescent() const;

  /// What keeps it from acting, for messages about deadlines. It is "ready", "acts on iteration 2",
  /// or a list of what is missing, separated by "; ": "waits for register 7 of actor 3, iteration
  /// 2", "waits for a free slot of register 4, held by actors 5, 6".
  std::string waits_for() const;

 private:
  static constexpr int64_t kEmpty = -1;

  /// The iterations that have arrived on a port.
  struct Input {
    RegisterId reg = 0;
    int acts = 1;           // per slot
    int done = 0;           // acts that have begun on the next slot; those of earlier slots are all
    int first = 0;          // its slots are [first, first + slots) of in_iterations_
    int slots = 0;          // at least as many as were ever used
    int next = -1;          // slot of the next iteration; -1: not there yet
    int filled = 0;         // slots that hold an iteration
    int64_t iteration = 0;  // of the next slot, if it has several acts: see next_of()
  };
  /// The iterations in flight on a port. Iteration i uses slot i % slots. Every consumer takes
  /// iterations in order, so that slot is also the first to be released.
  struct Output {
    RegisterId reg = 0;
    int acts = 1;        // per slot
    int done = 0;        // acts that have begun on the next slot; those of earlier slots are all
    int first = 0;       // its slots are [first, first + slots) of out_iterations_ and holders_
    int first_held = 0;  // index in held_: slot * consumers + consumer
    int slots = 0;
    int next = 0;           // slot of the next iteration
    int out = 0;            // slots that are not released
    int likely = 0;         // the consumer after the one that released a slot last
    int64_t iteration = 0;  // of the next slot, if it has several acts: see next_of()
  };

  void check_description() const;
  size_t input_port(RegisterId reg) const;
  size_t output_port(RegisterId reg) const;
  void reserve();
  void add_input(const InPort& port);
  void add_output(const OutPort& port);
  void take_ready(const Message& message);
  void take_released(const Message& message);
  void grow(size_t port, int slots);
  int64_t& iteration_in(const Input& input, int slot) { return in_iterations_[input.first + slot]; }
  int64_t iteration_in(const Input& input, int slot) const {
    return in_iterations_[input.first + slot];
  }
  int64_t& iteration_in(const Output& output, int slot) {
    return out_iterations_[output.first + slot];
  }
  int64_t iteration_in(const Output& output, int slot) const {
    return out_iterations_[output.first + slot];
  }
  /// Counts an act that begins.  returns  whether it is the last one of its slot
  template <class Port>
  static bool count_act(Port& port) {
    if (port.acts == 1) return true;
    if (++port.done < port.acts) return false;
    port.done = 0;
    ++port.iteration;
    return true;
  }
  /// The iteration of the next slot.
  template <class Port>
  int64_t next_of(const Port& port) const {
    return port.acts == 1 ? next_iteration_ : port.iteration;
  }
  // the slot that holds it; -1 when it has not arrived
  int find_iteration(const Input& input, int64_t iteration) const;
  bool is_blocked(const Output& output) const {
    return iteration_in(output, output.next) != kEmpty;
  }
  size_t output_of(RegisterId reg) const;
  bool holds(size_t port, size_t consumer) const;
  void send_ready(size_t port, std::vector<Message>& messages);
  void send_released(size_t port, std::vector<Message>& messages);
  std::string blocked_text(size_t port) const;
  [[noreturn]] void fail(const std::string& what) const;

  ActorDescription description_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  /// Of an actor with many inputs, such as an exchange with many ranks, or with many outputs, such
  /// as a feed: the register and port of each, by register.
  std::vector<std::pair<RegisterId, size_t>> inputs_by_register_, outputs_by_register_;
  std::vector<int64_t> in_iterations_, out_iterations_;  // by slot: its iteration, or kEmpty
  std::vector<size_t> holders_;  // by output slot: how many consumers have not released it
  std::vector<uint8_t> held_;    // by output slot and consumer: not released yet
  Act act_;
  int64_t next_iteration_ = 0;
  int missing_inputs_ = 0;   // ports without the next iteration
  int blocked_outputs_ = 0;  // ports whose next slot is not free
  bool acting_ = false;
};

}  // namespace tessera
