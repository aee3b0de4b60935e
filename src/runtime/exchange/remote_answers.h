// The data that one rank of this process sends to exchanges of other processes.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/comm/network.h"
#include "runtime/exchange/remote_receives.h"
#include "runtime/memory/program_context.h"
#include "runtime/memory/rank_memory.h"

namespace tessera {

/// The form in which the network carries exchange `id` to `receiver`. Sender and receiver derive
/// the same.
std::vector<RemoteRecvRegion> remote_recv_regions(const ProgramContext& program, TaskId id,
                                                  int receiver);

/// Answers to the requests of receivers in other processes.
///
///   threads  made by the thread of the rank; then used by the progress thread
class RemoteAnswers {
 public:
  RemoteAnswers(const ProgramContext& program, int rank_index, const RankMemory& memory)
      : program_(program), rank_index_(rank_index), memory_(memory) {}
  /// Plans the answers.  requires  all ranks of this process have found their recv regions
  void plan();

  /// Notes that this rank tells a receiver in another process that it has filled a slot.
  void note_filled(const Message& ready);
  /// The requested pieces and the slots that hold them; nullopt when one of them is not filled yet.
  std::optional<ProgramPort::Answer> answer(const FetchRequest& request);
  /// The number of answers that may need packed pieces at the same time, and the bytes of the
  /// largest piece.
  std::pair<int, Bytes> packing() const;

 private:
  /// A part of which a receiver takes something.
  struct SentPart {
    size_t part = 0;
    RegisterIndex from;
    int64_t filled = 0;  // iterations
  };
  struct Sent {
    std::vector<SentPiece> pieces;
    std::vector<SentPart> parts;
    std::vector<const std::byte*> slots;  // by part of the exchange: those of the last answer
  };
  Sent sent_to(TaskId id, int receiver) const;
  std::vector<SentPiece> pieces_for(TaskId id, int receiver) const;
  static void pack(const Box& box, const Box& frame, const TensorType& type, size_t part,
                   SentPiece& message);

  const ProgramContext& program_;
  const int rank_index_;
  const RankMemory& memory_;
  std::map<ActorId, Sent> answers_;  // by the exchange of another process
};

}  // namespace tessera
