// The parts of the ranks of this process that are reached from other threads.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "runtime/comm/mailbox.h"
#include "runtime/comm/network.h"
#include "runtime/exchange/remote_answers.h"
#include "runtime/memory/program_context.h"
#include "runtime/memory/rank_memory.h"

namespace tessera {

/// The part of a rank that the threads of other ranks and of the network use.
struct RankEndpoint {
  RankMemory memory;
  RemoteAnswers answers;
  std::unique_ptr<Mailbox> mailbox = nullptr;  // made when the rank is bound
  /// The current position of the rank in the order list; -1 before the first step. Other ranks read
  /// it for messages about missed deadlines.
  std::atomic<int> position{-1};

  RankEndpoint(const ProgramContext& program, int rank_index, std::byte* lent_arena)
      : memory(program, rank_index, lent_arena), answers(program, rank_index, memory) {}
};

/// A program and the endpoints of its ranks. It is the port through which the network reaches them.
class ProgramRanks : public ProgramPort {
 public:
  explicit ProgramRanks(ProgramContext context)
      : context_(std::move(context)), endpoints_(context_.ranks.size()) {}

  const ProgramContext& context() const { return context_; }
  void set_number(int number) { context_.number = number; }
  /// Makes the endpoint of a rank of this process. `lent_arena` is the arena of a region.
  void add(int rank_index, std::byte* lent_arena) {
    endpoints_[rank_index] = std::make_unique<RankEndpoint>(context_, rank_index, lent_arena);
  }
  void add_region(ProgramRanks& region) { regions_.push_back(&region); }
  /// Returns nullptr when the rank is in another process.
  RankEndpoint* find(int rank_index) const { return endpoints_[rank_index].get(); }

  /// Keeps a failure and stops all ranks, here and in other processes.
  void fail(const Failure& failure);
  /// Makes the ranks of this process check the stop state again.
  void wake() const;

  void take(const Message& message) override;
  void note_filled(const Message& ready) override;
  std::optional<Answer> answer(const FetchRequest& request) override;

 private:
  ProgramContext context_;
  std::vector<std::unique_ptr<RankEndpoint>> endpoints_;  // by rank index
  std::vector<ProgramRanks*> regions_;
};

}  // namespace tessera
