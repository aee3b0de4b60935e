// Exchanges that the library of the transport carries out as collectives (Reduction::kFast).
#pragma once

#include <memory>

#include "runtime/comm/process_groups.h"
#include "runtime/exchange/exchange_backend.h"
#include "runtime/memory/program_context.h"

namespace tessera {

/// A rank starts its collectives, one for each part, at its turn in the order list, when all ranks
/// of the group have filled their contributions: then every other rank of the group starts them,
/// too, in the same order.
class GroupCollective : public ExchangeBackend {
 public:
  struct Part {
    Collective what;
    size_t own_port = 0;  // the input port at which the rank receives from itself
    int group = -1;
  };
  GroupCollective(ProcessGroups& groups, std::vector<Part> parts)
      : groups_(groups), parts_(std::move(parts)) {}

  void join_group() override {
    for (Part& part : parts_) part.group = groups_.group_of(part.what.processes);
  }
  bool may_prefetch() const override { return false; }
  Bytes staging_bytes() const override { return Bytes(0); }
  void start(int64_t iteration, const Buffers& buffers) override;
  bool advance(BoxCombination& combination) override;
  bool has_news() const override { return !is_started_ || is_over(); }
  bool is_over() const override {
    return is_started_ && in_flight_.load(std::memory_order_acquire) == 0;
  }
  std::string_view awaited() const override { return "the ranks that do it together"; }

 private:
  ProcessGroups& groups_;
  std::vector<Part> parts_;
  std::span<std::byte* const> targets_;
  bool is_started_ = false;
  // the transport may lower it after the run has stopped, so it outlives the act
  Countdown in_flight_{0};
};

/// The backend of exchange `id` of a rank as collectives; nullptr when a part of it is none, or may
/// not be one.
///   requires  several processes
std::unique_ptr<ExchangeBackend> make_group_collective(const ProgramContext& program, TaskId id,
                                                       int rank_index);

}  // namespace tessera
