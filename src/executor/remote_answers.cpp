#include "executor/remote_answers.h"

#include <algorithm>

namespace tessera {

TravellingPulls travelling_pulls(const ProgramContext& program, TaskId id, int receiver) {
  const Task& task = program.task(id);
  const auto is_remote = [&](Rank sender) {
    return program.process_of[program.index_of(sender)] != program.process_of[receiver];
  };
  return travelling(program.reg(task.inputs[0]).type, task.exchange,
                    program.actors->pulls(id, receiver), program.ranks[receiver], is_remote);
}

void RemoteAnswers::plan() {
  if (!program_.network) return;
  for (TaskId id : program_.graph->tasks.indices()) {
    if (program_.task(id).kind != Task::Kind::kExchange) continue;
    for (int receiver = 0; receiver < program_.actors->rank_count(); ++receiver)
      if (!program_.is_here(receiver) && program_.actors->pulls_from(id, receiver, rank_index_))
        answers_[program_.actors->actor_id(receiver, id)] = {pieces_for(id, receiver),
                                                             program_.task(id).inputs[0]};
  }
}

/// The data that `receiver` gets from this rank in the exchange `id`, in the order in which it is
/// received.
std::vector<SentPiece> RemoteAnswers::pieces_for(TaskId id, int receiver) const {
  const Task& task = program_.task(id);
  const TensorType& type = program_.reg(task.inputs[0]).type;
  const Rank rank = program_.ranks[rank_index_];
  const std::vector<Piece> held =
      task.exchange.from.pieces(type.shape, *task.exchange.from.mesh->coordinate_of(rank));
  const auto travelling = travelling_pulls(program_, id, receiver);
  std::vector<SentPiece> sent;
  for (size_t i = 0; i < travelling.pulls.size(); ++i) {
    const Pull& pull = travelling.pulls[i];
    if (pull.sender != rank) continue;
    const Box& frame = piece_around(held, pull.box).frame;
    SentPiece piece{0, element_count(pull.box.shape()) * size_of(type.dtype), std::nullopt,
                    travelling.in_place[i]};
    if (const auto offset = dense_offset(pull.box, frame)) {
      piece.offset = *offset * size_of(type.dtype);
    } else {
      piece.pack.emplace(type.dtype, ReduceOp::kSum, pull.box, pull.box);
      piece.pack->add_source(0, frame);
      piece.pack->join_dims();
    }
    sent.push_back(std::move(piece));
  }
  return sent;
}

std::optional<ProgramPort::Answer> RemoteAnswers::answer(const FetchRequest& request) const {
  const Sent& sent = answers_.at(request.exchange);
  if (request.iteration >= sent.filled) return std::nullopt;
  // The iterations use the slots in turn (actors/actor.h).
  const auto slot = static_cast<int>(request.iteration % program_.reg(sent.from).slots);
  return ProgramPort::Answer{&sent.pieces, memory_.slot(sent.from, slot)};
}

std::pair<int, Bytes> RemoteAnswers::packing() const {
  // by receiver: the exchange at its turn, and those that it prefetches
  std::map<int, int> answers;
  Bytes largest{0};
  for (const auto& [exchange, sent] : answers_) {
    const bool is_packed = std::any_of(sent.pieces.begin(), sent.pieces.end(),
                                       [](const SentPiece& piece) { return piece.pack; });
    if (!is_packed) continue;
    for (const SentPiece& piece : sent.pieces)
      if (piece.pack) largest = std::max(largest, Bytes(piece.bytes));
    int& count = answers[program_.actors->rank_index_of(exchange)];
    const bool may_be_prefetched = !program_.task_of(exchange).issue_after.is_none();
    count = std::max(count, 1);
    if (may_be_prefetched) count = std::min(count + 1, 1 + kMaxPrefetchesInFlight);
  }
  int sum = 0;
  for (const auto& [receiver, count] : answers) sum += count;
  return {sum, largest};
}

}  // namespace tessera
