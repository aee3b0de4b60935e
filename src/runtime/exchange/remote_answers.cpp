#include "runtime/exchange/remote_answers.h"

#include <algorithm>

namespace tessera {

std::vector<RemoteRecvRegion> remote_recv_regions(const ProgramContext& program, TaskId id,
                                                  int receiver) {
  const Task& task = program.task(id);
  const auto is_remote = [&](Rank sender) {
    return program.process_of[program.index_of(sender)] != program.process_of[receiver];
  };
  std::vector<RecvPart> parts;
  for (size_t part = 0; part < task.parts.size(); ++part)
    parts.push_back({program.reg(task.inputs[part]).type, task.parts[part].exchange,
                     program.actors->recv_regions(id, part, receiver)});
  return to_remote_recv_regions(parts, program.ranks[receiver], is_remote);
}

void RemoteAnswers::plan() {
  if (!program_.network) return;
  for (TaskId id : program_.graph->tasks.indices()) {
    if (program_.task(id).kind != Task::Kind::kExchange) continue;
    for (int receiver = 0; receiver < program_.actors->rank_count(); ++receiver) {
      if (program_.is_here(receiver)) continue;
      Sent sent = sent_to(id, receiver);
      if (!sent.parts.empty()) answers_[program_.actors->actor_id(receiver, id)] = std::move(sent);
    }
  }
}

RemoteAnswers::Sent RemoteAnswers::sent_to(TaskId id, int receiver) const {
  const Task& task = program_.task(id);
  Sent sent{{}, {}, std::vector<const std::byte*>(task.parts.size())};
  for (size_t part = 0; part < task.parts.size(); ++part)
    if (program_.actors->recv_regions_from(id, part, receiver, rank_index_))
      sent.parts.push_back({part, task.inputs[part], 0});
  if (!sent.parts.empty()) sent.pieces = pieces_for(id, receiver);
  return sent;
}

/// The data that `receiver` gets from this rank in the exchange `id`, in the order in which it is
/// received.
std::vector<SentPiece> RemoteAnswers::pieces_for(TaskId id, int receiver) const {
  const Task& task = program_.task(id);
  const Rank rank = program_.ranks[rank_index_];
  std::vector<SentPiece> sent;
  std::vector<std::optional<int64_t>> dense;  // by message: the offset of its first box in the slot
  int batch = -1;                             // of the last staged message
  size_t staged = 0;                          // its index
  for (const RemoteRecvRegion& travels : remote_recv_regions(program_, id, receiver)) {
    if (travels.recv_region.sender != rank) continue;
    const TensorType& type = program_.reg(task.inputs[travels.part]).type;
    const DistAttr& from = task.parts[travels.part].exchange.from;
    const std::vector<Piece> held = from.pieces(type.shape, *from.mesh->coordinate_of(rank));
    const Box& box = travels.recv_region.box;
    const Box& frame = piece_around(held, box).frame;
    const bool joins = travels.batch >= 0 && travels.batch == batch;
    if (!joins) {
      sent.push_back({travels.part, 0, 0, {}, travels.in_place});
      dense.push_back(dense_offset(box, frame));
    }
    pack(box, frame, type, travels.part, joins ? sent[staged] : sent.back());
    if (travels.batch >= 0 && !joins) batch = travels.batch, staged = sent.size() - 1;
  }
  for (size_t i = 0; i < sent.size(); ++i) {
    if (!dense[i] || sent[i].packed.size() > 1) continue;
    sent[i].offset = *dense[i] * size_of(program_.reg(task.inputs[sent[i].part]).type->dtype);
    sent[i].packed.clear();
  }
  return sent;
}

/// Adds a box to a message.
void RemoteAnswers::pack(const Box& box, const Box& frame, const TensorType& type, size_t part,
                         SentPiece& message) {
  PackedBox packed{part, align_up(message.bytes), BoxCombine(type.dtype, ReduceOp::kSum, box, box)};
  packed.pack.add_source(0, frame);
  packed.pack.join_dims();
  message.bytes = packed.begin + element_count(box.shape()) * size_of(type.dtype);
  message.packed.push_back(std::move(packed));
}

void RemoteAnswers::note_filled(const Message& ready) {
  const RegisterIndex filled = program_.actors->register_of(ready.reg);
  for (SentPart& part : answers_.at(ready.to).parts)
    if (part.from == filled) part.filled = ready.iteration + 1;
}

std::optional<ProgramPort::Answer> RemoteAnswers::answer(const FetchRequest& request) {
  Sent& sent = answers_.at(request.exchange);
  for (const SentPart& part : sent.parts) {
    if (request.iteration >= part.filled) return std::nullopt;
    // The iterations use the slots in turn (task_graph/actors/actor.h).
    const auto slot = static_cast<int>(request.iteration % program_.reg(part.from).slots);
    sent.slots[part.part] = memory_.slot(part.from, slot);
  }
  return ProgramPort::Answer{&sent.pieces, sent.slots};
}

std::pair<int, Bytes> RemoteAnswers::packing() const {
  // by receiver: the exchange at its turn, and those that it prefetches
  std::map<int, int> answers;
  Bytes largest{0};
  for (const auto& [exchange, sent] : answers_) {
    const bool is_packed = std::any_of(sent.pieces.begin(), sent.pieces.end(),
                                       [](const SentPiece& it) { return !it.packed.empty(); });
    if (!is_packed) continue;
    for (const SentPiece& piece : sent.pieces)
      if (!piece.packed.empty()) largest = std::max(largest, Bytes(piece.bytes));
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
