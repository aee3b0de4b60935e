#include "actors/actor.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace tessera {
namespace {

/// Slots for which an input has room before it has seen any: the usual numbers of slots never make it grow.
constexpr size_t kUsualSlots = 8;

template <typename Port>
bool has_repeated_register(const std::vector<Port>& ports) {
  for (size_t i = 0; i < ports.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (ports[i].reg == ports[j].reg) return true;
  return false;
}

bool has_repeated(std::vector<ActorId> ids) {
  std::sort(ids.begin(), ids.end());
  return std::adjacent_find(ids.begin(), ids.end()) != ids.end();
}

/// Position of the port of `reg`, or the number of ports. A task has few ports: a scan beats a table.
template <typename Port>
size_t port_of(const std::vector<Port>& ports, RegisterId reg) {
  const auto found = std::find_if(ports.begin(), ports.end(), [&](const Port& port) { return port.reg == reg; });
  return static_cast<size_t>(found - ports.begin());
}

}  // namespace

Actor::Actor(ActorDescription description) : description_(std::move(description)) {
  check_description();
  inputs_.resize(description_.inputs.size());
  for (Input& input : inputs_) input.record_in.assign(kUsualSlots, kEmpty);
  outputs_.resize(description_.outputs.size());
  for (size_t port = 0; port < outputs_.size(); ++port) {
    const OutPort& out = description_.outputs[port];
    const auto slots = static_cast<size_t>(out.slots);
    outputs_[port] = {std::vector<int64_t>(slots, kEmpty), std::vector<uint8_t>(slots * out.consumers.size(), 0),
                      std::vector<int>(slots, 0)};
  }
  act_.input_slots.resize(inputs_.size());
  act_.output_slots.resize(outputs_.size());
  count_waits();
}

void Actor::check_description() const {
  if (has_repeated_register(description_.inputs)) fail("consumes a register twice");
  if (has_repeated_register(description_.outputs)) fail("produces a register twice");
  for (const OutPort& out : description_.outputs) {
    if (out.slots < 1) fail("register " + std::to_string(out.reg) + " has no slot");
    if (has_repeated(out.consumers)) fail("register " + std::to_string(out.reg) + " names a consumer twice");
  }
}

void Actor::receive(const Message& message) {
  if (message.to != description_.id) fail("got a message for actor " + std::to_string(message.to));
  if (message.kind == Message::Kind::kReady)
    take_ready(message);
  else
    take_returned(message);
}

void Actor::take_ready(const Message& message) {
  const size_t port = port_of(description_.inputs, message.reg);
  if (port == inputs_.size()) fail("does not consume register " + std::to_string(message.reg));
  std::vector<int64_t>& record_in = inputs_[port].record_in;
  const bool repeats = message.record < next_record_ || std::find(record_in.begin(), record_in.end(), message.record) != record_in.end();
  if (repeats) fail("got record " + std::to_string(message.record) + " of register " + std::to_string(message.reg) + " twice");
  if (message.slot < 0) fail("got slot " + std::to_string(message.slot) + " of register " + std::to_string(message.reg));
  const auto slot = static_cast<size_t>(message.slot);
  if (slot >= record_in.size()) record_in.resize(slot + 1, kEmpty);
  if (record_in[slot] != kEmpty)
    fail("got slot " + std::to_string(slot) + " of register " + std::to_string(message.reg) + " while it is full");
  record_in[slot] = message.record;
  if (message.record == next_record_) --missing_inputs_;
}

void Actor::take_returned(const Message& message) {
  const size_t port = port_of(description_.outputs, message.reg);
  if (port == outputs_.size()) fail("does not produce register " + std::to_string(message.reg));
  const std::vector<ActorId>& consumers = description_.outputs[port].consumers;
  Output& output = outputs_[port];
  const auto consumer = static_cast<size_t>(std::find(consumers.begin(), consumers.end(), message.from) - consumers.begin());
  const bool slot_exists = message.slot >= 0 && message.slot < description_.outputs[port].slots;
  const size_t slot = slot_exists ? static_cast<size_t>(message.slot) : 0;
  if (!slot_exists || consumer == consumers.size() || output.record_in[slot] != message.record || message.record == kEmpty ||
      !output.held[slot * consumers.size() + consumer])
    fail("got back slot " + std::to_string(message.slot) + " of register " + std::to_string(message.reg) + " with record " +
         std::to_string(message.record) + " from actor " + std::to_string(message.from) + ", which does not hold it");
  output.held[slot * consumers.size() + consumer] = 0;
  if (--output.holders[slot] > 0) return;
  output.record_in[slot] = kEmpty;
  if (message.slot == slot_of_next(output)) --blocked_outputs_;
}

int Actor::slot_of_next(const Input& input) const {
  const auto found = std::find(input.record_in.begin(), input.record_in.end(), next_record_);
  return found == input.record_in.end() ? -1 : static_cast<int>(found - input.record_in.begin());
}

int Actor::slot_of_next(const Output& output) const {
  return static_cast<int>(next_record_ % static_cast<int64_t>(output.record_in.size()));
}

void Actor::count_waits() {
  const auto missing = [this](const Input& input) { return slot_of_next(input) < 0; };
  const auto blocked = [this](const Output& output) { return is_blocked(output); };
  missing_inputs_ = static_cast<int>(std::count_if(inputs_.begin(), inputs_.end(), missing));
  blocked_outputs_ = static_cast<int>(std::count_if(outputs_.begin(), outputs_.end(), blocked));
}

const Act& Actor::begin() {
  if (!ready()) fail("begins while it " + waits_for());
  act_.record = next_record_;
  for (size_t port = 0; port < inputs_.size(); ++port) act_.input_slots[port] = slot_of_next(inputs_[port]);
  for (size_t port = 0; port < outputs_.size(); ++port) act_.output_slots[port] = slot_of_next(outputs_[port]);
  acting_ = true;
  ++next_record_;
  count_waits();
  return act_;
}

void Actor::finish(std::vector<Message>& messages) {
  if (!acting_) fail("ends an act that it did not begin");
  for (size_t port = 0; port < outputs_.size(); ++port) send_ready(port, messages);
  for (size_t port = 0; port < inputs_.size(); ++port) send_returned(port, messages);
  acting_ = false;
  count_waits();
}

void Actor::send_ready(size_t port, std::vector<Message>& messages) {
  const OutPort& out = description_.outputs[port];
  if (out.consumers.empty()) return;
  Output& output = outputs_[port];
  const int slot = act_.output_slots[port];
  const size_t count = out.consumers.size();
  output.record_in[static_cast<size_t>(slot)] = act_.record;
  output.holders[static_cast<size_t>(slot)] = static_cast<int>(count);
  std::fill_n(output.held.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(slot) * count), count, uint8_t{1});
  for (ActorId consumer : out.consumers) messages.push_back({Message::Kind::kReady, consumer, out.reg, slot, act_.record, description_.id});
}

void Actor::send_returned(size_t port, std::vector<Message>& messages) {
  const InPort& in = description_.inputs[port];
  const int slot = act_.input_slots[port];
  inputs_[port].record_in[static_cast<size_t>(slot)] = kEmpty;
  messages.push_back({Message::Kind::kReturned, in.producer, in.reg, slot, act_.record, description_.id});
}

bool Actor::holds(size_t port, size_t consumer) const {
  const size_t count = description_.outputs[port].consumers.size();
  const std::vector<uint8_t>& held = outputs_[port].held;
  for (size_t at = consumer; at < held.size(); at += count)
    if (held[at]) return true;
  return false;
}

bool Actor::handed_back(RegisterId reg, ActorId except) const {
  const size_t port = port_of(description_.outputs, reg);
  if (port == outputs_.size()) fail("does not produce register " + std::to_string(reg));
  const std::vector<ActorId>& consumers = description_.outputs[port].consumers;
  for (size_t consumer = 0; consumer < consumers.size(); ++consumer)
    if (consumers[consumer] != except && holds(port, consumer)) return false;
  return true;
}

std::vector<ActorId> Actor::holders(RegisterId reg) const {
  const size_t port = port_of(description_.outputs, reg);
  if (port == outputs_.size()) fail("does not produce register " + std::to_string(reg));
  const std::vector<ActorId>& consumers = description_.outputs[port].consumers;
  std::vector<ActorId> found;
  for (size_t consumer = 0; consumer < consumers.size(); ++consumer)
    if (holds(port, consumer)) found.push_back(consumers[consumer]);
  return found;
}

bool Actor::drained() const {
  const auto is_empty = [](int64_t record) { return record == kEmpty; };
  const auto is_home = [&](const auto& port) { return std::all_of(port.record_in.begin(), port.record_in.end(), is_empty); };
  return !acting_ && std::all_of(inputs_.begin(), inputs_.end(), is_home) && std::all_of(outputs_.begin(), outputs_.end(), is_home);
}

std::string Actor::waits_for() const {
  if (acting_) return "acts on record " + std::to_string(act_.record);
  std::vector<std::string> reasons;
  for (size_t port = 0; port < inputs_.size(); ++port) {
    if (slot_of_next(inputs_[port]) >= 0) continue;
    const InPort& in = description_.inputs[port];
    reasons.push_back("waits for register " + std::to_string(in.reg) + " of actor " + std::to_string(in.producer) + ", record " +
                      std::to_string(next_record_));
  }
  for (size_t port = 0; port < outputs_.size(); ++port)
    if (is_blocked(outputs_[port])) reasons.push_back(blocked_text(port));
  return reasons.empty() ? "ready" : join(reasons, "; ");
}

std::string Actor::blocked_text(size_t port) const {
  const OutPort& out = description_.outputs[port];
  const auto first = static_cast<size_t>(slot_of_next(outputs_[port])) * out.consumers.size();
  std::vector<std::string> holders;
  for (size_t consumer = 0; consumer < out.consumers.size(); ++consumer)
    if (outputs_[port].held[first + consumer]) holders.push_back(std::to_string(out.consumers[consumer]));
  return "waits for a free slot of register " + std::to_string(out.reg) + ", held by " + (holders.size() == 1 ? "actor " : "actors ") +
         join(holders, ", ");
}

void Actor::fail(const std::string& what) const {
  throw InternalError("actor " + std::to_string(description_.id) + " '" + description_.name + "' " + what);
}

}  // namespace tessera
