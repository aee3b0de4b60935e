#include "task_graph/actors/actor.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {
namespace {

bool has_repeated(std::vector<int> ids) {
  std::sort(ids.begin(), ids.end());
  return std::adjacent_find(ids.begin(), ids.end()) != ids.end();
}

template <typename Port>
bool has_repeated_register(const std::vector<Port>& ports) {
  std::vector<RegisterId> registers;
  for (const Port& port : ports) registers.push_back(port.reg);
  return has_repeated(std::move(registers));
}

/// With more ports than this a search is faster than a scan.
constexpr size_t kManyPorts = 16;

using PortsByRegister = std::vector<std::pair<RegisterId, size_t>>;

/// Empty of few ports.
template <typename Port>
PortsByRegister by_register(const std::vector<Port>& ports) {
  PortsByRegister list;
  if (ports.size() <= kManyPorts) return list;
  list.reserve(ports.size());
  for (size_t port = 0; port < ports.size(); ++port) list.emplace_back(ports[port].reg, port);
  std::sort(list.begin(), list.end());
  return list;
}

size_t search_port(const PortsByRegister& ports, RegisterId reg) {
  const auto found = std::lower_bound(ports.begin(), ports.end(), std::pair(reg, size_t{0}));
  return found != ports.end() && found->first == reg ? found->second : ports.size();
}

/// The position of the port of `reg`, or the number of ports. Most tasks have few ports, of which a
/// scan is faster than a table.
template <typename Port>
inline size_t port_of(const std::vector<Port>& ports, const PortsByRegister& many, RegisterId reg) {
  if (!many.empty()) return search_port(many, reg);
  size_t port = 0;
  while (port < ports.size() && ports[port].reg != reg) ++port;
  return port;
}

/// The position of a consumer, or the number of consumers. They often release in their order, so
/// `likely` is tried first.
size_t find_consumer(const std::vector<ActorId>& consumers, ActorId id, size_t likely) {
  if (likely < consumers.size() && consumers[likely] == id) return likely;
  return std::find(consumers.begin(), consumers.end(), id) - consumers.begin();
}

}  // namespace

inline size_t Actor::input_port(RegisterId reg) const {
  return port_of(inputs_, inputs_by_register_, reg);
}
inline size_t Actor::output_port(RegisterId reg) const {
  return port_of(outputs_, outputs_by_register_, reg);
}

Actor::Actor(ActorDescription description) : description_(std::move(description)) {
  check_description();
  reserve();
  for (const InPort& port : description_.inputs) add_input(port);
  for (const OutPort& port : description_.outputs) add_output(port);
  inputs_by_register_ = by_register(inputs_);
  outputs_by_register_ = by_register(outputs_);
  act_.input_slots.resize(inputs_.size());
  act_.output_slots.resize(outputs_.size());
}

/// Large runs have a million ports: what they need is allocated once and exactly.
void Actor::reserve() {
  inputs_.reserve(description_.inputs.size());
  outputs_.reserve(description_.outputs.size());
  size_t slots = 0;
  for (const InPort& port : description_.inputs) slots += port.slots;
  in_iterations_.reserve(slots);
  slots = 0;
  size_t held = 0;
  for (const OutPort& port : description_.outputs) {
    slots += port.slots;
    held += port.slots * port.consumers.size();
  }
  out_iterations_.reserve(slots);
  holders_.reserve(slots);
  held_.reserve(held);
}

void Actor::add_input(const InPort& port) {
  inputs_.push_back({.reg = port.reg,
                     .acts = port.acts_per_slot,
                     .first = static_cast<int>(in_iterations_.size()),
                     .slots = port.slots});
  ++missing_inputs_;
  in_iterations_.resize(in_iterations_.size() + port.slots, kEmpty);
}

void Actor::add_output(const OutPort& port) {
  outputs_.push_back({.reg = port.reg,
                      .acts = port.acts_per_slot,
                      .first = static_cast<int>(out_iterations_.size()),
                      .first_held = static_cast<int>(held_.size()),
                      .slots = port.slots});
  const size_t slots = port.slots;
  out_iterations_.resize(out_iterations_.size() + slots, kEmpty);
  holders_.resize(holders_.size() + slots, 0);
  held_.resize(held_.size() + slots * port.consumers.size(), 0);
}

void Actor::check_description() const {
  if (has_repeated_register(description_.inputs)) fail("consumes a register twice");
  if (has_repeated_register(description_.outputs)) fail("produces a register twice");
  for (const InPort& in : description_.inputs)
    if (in.acts_per_slot < 1 || in.slots < 1)
      fail("does not read register " + std::to_string(in.reg));
  for (const OutPort& out : description_.outputs) {
    if (out.acts_per_slot < 1) fail("does not fill register " + std::to_string(out.reg));
    if (out.slots < 1) fail("register " + std::to_string(out.reg) + " has no slot");
    if (has_repeated(out.consumers))
      fail("register " + std::to_string(out.reg) + " names a consumer twice");
  }
}

void Actor::receive(const Message& message) {
  if (message.to != description_.id) fail("got a message for actor " + std::to_string(message.to));
  if (message.kind == Message::Kind::kReady)
    take_ready(message);
  else
    take_released(message);
}

void Actor::take_ready(const Message& message) {
  const size_t port = input_port(message.reg);
  if (port == inputs_.size()) fail("does not consume register " + std::to_string(message.reg));
  Input& input = inputs_[port];
  if (message.iteration < next_of(input) ||
      (input.filled > 0 && find_iteration(input, message.iteration) >= 0))
    fail("got iteration " + std::to_string(message.iteration) + " of register " +
         std::to_string(message.reg) + " twice");
  if (message.slot < 0)
    fail("got slot " + std::to_string(message.slot) + " of register " +
         std::to_string(message.reg));
  if (message.slot >= input.slots) grow(port, message.slot + 1);
  int64_t& iteration = iteration_in(input, message.slot);
  if (iteration != kEmpty)
    fail("got slot " + std::to_string(message.slot) + " of register " +
         std::to_string(message.reg) + " while it is full");
  iteration = message.iteration;
  ++input.filled;
  if (message.iteration != next_of(input)) return;
  input.next = message.slot;
  --missing_inputs_;
}

/// Adds slots for a producer that uses more slots than before.
void Actor::grow(size_t port, int slots) {
  const int more = slots - inputs_[port].slots;
  const auto end = in_iterations_.begin() + inputs_[port].first + inputs_[port].slots;
  in_iterations_.insert(end, more, kEmpty);
  inputs_[port].slots = slots;
  for (size_t later = port + 1; later < inputs_.size(); ++later) inputs_[later].first += more;
}

void Actor::take_released(const Message& message) {
  const size_t port = output_port(message.reg);
  if (port == outputs_.size()) fail("does not produce register " + std::to_string(message.reg));
  const std::vector<ActorId>& consumers = description_.outputs[port].consumers;
  Output& output = outputs_[port];
  const size_t consumer = find_consumer(consumers, message.from, output.likely);
  const bool slot_exists = message.slot >= 0 && message.slot < output.slots;
  const int slot = slot_exists ? message.slot : 0;
  const size_t held = output.first_held + slot * consumers.size() + consumer;
  if (!slot_exists || consumer == consumers.size() ||
      iteration_in(output, slot) != message.iteration || message.iteration == kEmpty ||
      !held_[held])
    fail("got back slot " + std::to_string(message.slot) + " of register " +
         std::to_string(message.reg) + " with iteration " + std::to_string(message.iteration) +
         " from actor " + std::to_string(message.from) + ", which does not hold it");
  held_[held] = 0;
  output.likely = consumer + 1 == consumers.size() ? 0 : static_cast<int>(consumer) + 1;
  if (--holders_[output.first + slot] > 0) return;
  iteration_in(output, slot) = kEmpty;
  --output.out;
  if (slot == output.next) --blocked_outputs_;
}

int Actor::find_iteration(const Input& input, int64_t iteration) const {
  for (int slot = 0; slot < input.slots; ++slot)
    if (iteration_in(input, slot) == iteration) return slot;
  return -1;
}

const Act& Actor::begin() {
  if (!ready()) fail("begins while it " + waits_for());
  act_.iteration = next_iteration_++;
  acting_ = true;
  for (size_t port = 0; port < inputs_.size(); ++port) {
    Input& input = inputs_[port];
    act_.input_slots[port] = input.next;
    if (!count_act(input)) continue;
    input.next = input.filled > 1 ? find_iteration(input, next_of(input)) : -1;
    missing_inputs_ += input.next < 0;
  }
  for (size_t port = 0; port < outputs_.size(); ++port) {
    Output& output = outputs_[port];
    act_.output_slots[port] = output.next;
    if (!count_act(output)) continue;
    output.next = output.next + 1 == output.slots ? 0 : output.next + 1;
    blocked_outputs_ += is_blocked(output);
  }
  return act_;
}

void Actor::finish(std::vector<Message>& messages) {
  if (!acting_) fail("ends an act that it did not begin");
  acting_ = false;
  for (size_t port = 0; port < outputs_.size(); ++port) send_ready(port, messages);
  for (size_t port = 0; port < inputs_.size(); ++port) send_released(port, messages);
}

void Actor::send_ready(size_t port, std::vector<Message>& messages) {
  const OutPort& out = description_.outputs[port];
  Output& output = outputs_[port];
  if (out.consumers.empty() || output.done > 0) return;
  const int slot = act_.output_slots[port];
  const size_t count = out.consumers.size();
  const int64_t iteration = next_of(output) - 1;
  iteration_in(output, slot) = iteration;
  ++output.out;
  if (slot == output.next) ++blocked_outputs_;
  holders_[output.first + slot] = count;
  uint8_t* const held = &held_[output.first_held + slot * count];
  *held = 1;  // most have one consumer, for which a call of memset is long
  if (count > 1) std::fill(held + 1, held + count, uint8_t{1});
  for (ActorId consumer : out.consumers)
    messages.push_back(
        {Message::Kind::kReady, consumer, out.reg, slot, iteration, description_.id});
}

void Actor::send_released(size_t port, std::vector<Message>& messages) {
  const InPort& in = description_.inputs[port];
  Input& input = inputs_[port];
  if (input.done > 0) return;
  const int slot = act_.input_slots[port];
  const int64_t iteration = std::exchange(iteration_in(input, slot), kEmpty);
  --input.filled;
  messages.push_back(
      {Message::Kind::kReleased, in.producer, in.reg, slot, iteration, description_.id});
}

size_t Actor::output_of(RegisterId reg) const {
  const size_t port = output_port(reg);
  if (port == outputs_.size()) fail("does not produce register " + std::to_string(reg));
  return port;
}

bool Actor::holds(size_t port, size_t consumer) const {
  const size_t count = description_.outputs[port].consumers.size();
  const Output& output = outputs_[port];
  for (int slot = 0; slot < output.slots; ++slot)
    if (held_[output.first_held + slot * count + consumer]) return true;
  return false;
}

bool Actor::is_released(RegisterId reg, ActorId except) const {
  const size_t port = output_of(reg);
  if (outputs_[port].out == 0) return true;
  const std::vector<ActorId>& consumers = description_.outputs[port].consumers;
  for (size_t consumer = 0; consumer < consumers.size(); ++consumer)
    if (consumers[consumer] != except && holds(port, consumer)) return false;
  return true;
}

std::vector<ActorId> Actor::holders(RegisterId reg) const {
  const size_t port = output_of(reg);
  const std::vector<ActorId>& consumers = description_.outputs[port].consumers;
  std::vector<ActorId> found;
  for (size_t consumer = 0; consumer < consumers.size(); ++consumer)
    if (holds(port, consumer)) found.push_back(consumers[consumer]);
  return found;
}

bool Actor::is_quiescent() const {
  const auto is_empty = [](const Input& input) { return input.filled == 0; };
  const auto is_free = [](const Output& output) { return output.out == 0 && output.done == 0; };
  return !acting_ && std::all_of(inputs_.begin(), inputs_.end(), is_empty) &&
         std::all_of(outputs_.begin(), outputs_.end(), is_free);
}

std::string Actor::waits_for() const {
  if (acting_) return "acts on iteration " + std::to_string(act_.iteration);
  std::vector<std::string> reasons;
  for (size_t port = 0; port < inputs_.size(); ++port) {
    if (has_input(port)) continue;
    const InPort& in = description_.inputs[port];
    reasons.push_back("waits for register " + std::to_string(in.reg) + " of actor " +
                      std::to_string(in.producer) + ", iteration " +
                      std::to_string(next_of(inputs_[port])));
  }
  for (size_t port = 0; port < outputs_.size(); ++port)
    if (is_blocked(outputs_[port])) reasons.push_back(blocked_text(port));
  return reasons.empty() ? "ready" : join(reasons, "; ");
}

std::string Actor::blocked_text(size_t port) const {
  const OutPort& out = description_.outputs[port];
  const size_t first = outputs_[port].first_held + outputs_[port].next * out.consumers.size();
  std::vector<std::string> holders;
  for (size_t consumer = 0; consumer < out.consumers.size(); ++consumer)
    if (held_[first + consumer]) holders.push_back(std::to_string(out.consumers[consumer]));
  return "waits for a free slot of register " + std::to_string(out.reg) + ", held by " +
         (holders.size() == 1 ? "actor " : "actors ") + join(holders, ", ");
}

void Actor::fail(const std::string& what) const {
  throw InternalError("actor " + std::to_string(description_.id) + " '" + description_.name + "' " +
                      what);
}

}  // namespace tessera
