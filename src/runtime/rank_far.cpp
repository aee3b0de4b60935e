// What a rank shares with ranks on other members of the run: exchanges that pull from them, and the answers to what they ask for.
#include <algorithm>

#include "base/error.h"
#include "runtime/rank_program.h"

namespace tessera {

OpenProgram::OpenProgram(BoundProgram& program) : program_(program), number_(program.network->new_program()) {}

OpenProgram::~OpenProgram() {
  program_.network->close(number_);
}

void OpenProgram::open() {
  program_.network->open(number_, *this);
}

void OpenProgram::take(const Message& message) {
  program_.ranks[static_cast<size_t>(program_.actors->rank_index_of(message.to))]->take(message);
}

ProgramPort::Answer OpenProgram::answer(const Ask& ask) {
  return program_.ranks[static_cast<size_t>(ask.sender)]->answer(ask);
}

/// Its own; of ranks on other members every rank of this one finds a share.
bool RankProgram::finds_pulls_of(int receiver) const {
  if (program_.is_here(receiver)) return receiver == index_;
  std::vector<int> here;
  for (int index = 0; index < program_.actors->rank_count(); ++index)
    if (program_.is_here(index)) here.push_back(index);
  return here[static_cast<size_t>(receiver) % here.size()] == index_;
}

TravellingPulls RankProgram::travelling_pulls(TaskId id, int receiver) const {
  const auto member_of = [&](int index) { return program_.members[static_cast<size_t>(index)]; };
  const auto is_far = [&](Rank sender) { return member_of(program_.index_of(sender)) != member_of(receiver); };
  return travelling(program_.reg(program_.task(id).inputs[0]).type, program_.task(id).exchange, program_.actors->pulls(id, receiver),
                    program_.processes[static_cast<size_t>(receiver)], is_far);
}

void RankProgram::plan_far(TaskId id, Pulling& pulling) const {
  const Task& task = program_.task(id);
  const TensorType& type = program_.reg(task.inputs[0]).type;
  const auto travelling = travelling_pulls(id, index_);
  auto far = std::make_unique<FarPulls>();
  for (size_t port = 0; port < pulling.senders.size(); ++port) {
    const int sender = pulling.senders[port];
    if (program_.is_here(sender)) continue;
    far->add_lane(port, program_.members[static_cast<size_t>(sender)],
                  {program_.open->number(), program_.actors->actor_id(index_, id), sender, 0, program_.network->new_tags(2)});
  }
  const std::vector<Piece> mine = task.exchange.to.pieces(type.shape, *coordinates_[static_cast<size_t>(task.mesh)]);
  size_t source = 0;  // of the next contribution that is staged
  for (size_t i = 0; i < travelling.pulls.size(); ++i) {
    const Pull& pull = travelling.pulls[i];
    const int sender = program_.index_of(pull.sender);
    const auto port = static_cast<size_t>(std::find(pulling.senders.begin(), pulling.senders.end(), sender) - pulling.senders.begin());
    const Box& frame = piece_around(mine, pull.box).frame;
    const int64_t bytes = element_count(pull.box.shape()) * size_of(type.dtype);
    if (travelling.in_place[i]) {
      far->add_in_place(port, *dense_offset(pull.box, frame) * size_of(type.dtype), bytes);
      continue;
    }
    if (pull.first) pulling.boxes.emplace_back(type.dtype, pull.reduce, pull.box, frame), source = pulling.senders.size();
    ensure(!pulling.boxes.empty() && pulling.boxes.back().box() == pull.box, "the contributions to a box follow its first one");
    if (program_.is_here(sender)) {
      const std::vector<Piece> held = task.exchange.from.pieces(type.shape, *task.exchange.from.mesh->coordinate_of(pull.sender));
      pulling.boxes.back().add_source(port, piece_around(held, pull.box).frame);
    } else {
      far->add_staged(port, pulling.boxes.size() - 1, source, bytes);
      pulling.boxes.back().add_source(source++, pull.box);
      pulling.sources.resize(std::max(pulling.sources.size(), source));
    }
  }
  for (BoxCombine& box : pulling.boxes) box.join_dims();
  far->finish_plan();
  if (far->pulls_anything()) pulling.far = std::move(far);
}

/// What `receiver` gets of this rank in the exchange `id`, in the order in which it takes it.
std::vector<SentPiece> RankProgram::pieces_for(TaskId id, int receiver) const {
  const Task& task = program_.task(id);
  const TensorType& type = program_.reg(task.inputs[0]).type;
  const std::vector<Piece> held = task.exchange.from.pieces(type.shape, *task.exchange.from.mesh->coordinate_of(rank_));
  const auto travelling = travelling_pulls(id, receiver);
  std::vector<SentPiece> sent;
  for (size_t i = 0; i < travelling.pulls.size(); ++i) {
    const Pull& pull = travelling.pulls[i];
    if (pull.sender != rank_) continue;
    const Box& frame = piece_around(held, pull.box).frame;
    SentPiece piece{0, element_count(pull.box.shape()) * size_of(type.dtype), std::nullopt, travelling.in_place[i]};
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

/// Also makes the memory in which this rank receives.
void RankProgram::plan_answers() {
  if (!program_.network) return;
  Bytes staging{0};
  for (const Plan& plan : plans_)
    if (plan.pulling.far) staging = std::max(staging, plan.pulling.far->staging_bytes());
  staging_ = AlignedBuffer(staging);
  const auto count = static_cast<TaskId>(program_.graph->tasks.size());
  for (TaskId id = 0; id < count; ++id) {
    if (program_.task(id).kind != Task::Kind::kExchange) continue;
    for (int receiver = 0; receiver < program_.actors->rank_count(); ++receiver)
      if (!program_.is_here(receiver) && program_.actors->pulls_from(id, receiver, index_))
        answers_[program_.actors->actor_id(receiver, id)] = pieces_for(id, receiver);
  }
}

ProgramPort::Answer RankProgram::answer(const Ask& ask) const {
  return {&answers_.at(ask.exchange), slot_data(program_.task(program_.actors->task_of(ask.exchange)).inputs[0], ask.slot)};
}

std::pair<int, Bytes> RankProgram::packing() const {
  std::vector<int> receivers;
  Bytes largest{0};
  for (const auto& [exchange, pieces] : answers_)
    for (const SentPiece& piece : pieces) {
      if (!piece.pack) continue;
      largest = std::max(largest, Bytes(piece.bytes));
      const int receiver = program_.actors->rank_index_of(exchange);
      if (std::find(receivers.begin(), receivers.end(), receiver) == receivers.end()) receivers.push_back(receiver);
    }
  return {static_cast<int>(receivers.size()), largest};
}

/// returns  false when the run stops
bool RankProgram::combine_far(Pulling& pulling, const Act& act, std::byte* target) {
  const auto end = deadline();
  FarPulls& far = *pulling.far;
  const auto came = [&](bool in_time) {
    ensure(in_time || program_.stop->stopped(),
           "waited " + to_text(program_.options.deadline) + " for the bytes of ranks of other processes");
    return in_time;
  };
  far.begin(*program_.network, target, act.input_slots, staging_.data());
  for (size_t i = 0; i < pulling.boxes.size(); ++i) {
    if (!came(far.fetch(i, pulling.sources, end))) return false;
    pulling.boxes[i].run(target, pulling.sources);
    far.release(i);
  }
  return came(far.end(end));
}

/// returns  false at the end
bool RankProgram::wait_for_message(std::chrono::steady_clock::time_point end) const {
  if (!program_.network) return mailbox_->wait(*program_.stop, program_.patience, end);
  return program_.network->wait([this] { return mailbox_->has_messages(); }, end) || program_.stop->stopped();
}

}  // namespace tessera
