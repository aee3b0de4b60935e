// Exchanges that the library of the transport carries out as collectives (Reduction::kFast).
#pragma once

#include <memory>

#include "comm/process_groups.h"
#include "executor/exchange_backend.h"
#include "executor/program_context.h"

namespace tessera {

/// A rank starts a collective at its turn in the order list, when all ranks of the group have
/// filled their contributions: then every other rank of the group starts it, too.
class GroupCollective : public ExchangeBackend {
 public:
  /// `own_port`: the input port at which the rank receives from itself.
  GroupCollective(ProcessGroups& groups, Collective what, size_t own_port)
      : groups_(groups), what_(std::move(what)), own_port_(own_port) {}

  void join_group() override { group_ = groups_.group_of(what_.processes); }
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
  const Collective what_;
  const size_t own_port_;
  int group_ = -1;
  std::byte* target_ = nullptr;
  bool is_started_ = false;
  // the transport may lower it after the run has stopped, so it outlives the act
  Countdown in_flight_{0};
};

/// The backend of exchange `id` of a rank as a collective; nullptr when it is none, or may not be
/// one.
///   requires  several processes
std::unique_ptr<ExchangeBackend> make_group_collective(const ProgramContext& program, TaskId id,
                                                       int rank_index);

}  // namespace tessera
