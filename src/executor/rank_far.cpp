// What a rank shares with ranks on other members of the run: exchanges that pull from them, and the
// answers to what they ask for.
#include <algorithm>

#include "base/error.h"
#include "executor/rank_program.h"

namespace tessera {

OpenProgram::OpenProgram(BoundProgram& program)
    : program_(program), number_(program.network->programs().new_program()) {}

OpenProgram::~OpenProgram() {
  program_.network->programs().close(number_);
}

void OpenProgram::open() {
  program_.network->programs().open(number_, *this);
}

void OpenProgram::take(const Message& message) {
  program_.ranks[program_.actors->rank_index_of(message.to)]->take(message);
}

void OpenProgram::note_filled(const Message& ready) {
  program_.ranks[program_.actors->rank_index_of(ready.from)]->note_filled(ready);
}

std::optional<ProgramPort::Answer> OpenProgram::answer(const FetchRequest& request) {
  return program_.ranks[request.sender]->answer(request);
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
  const auto member_of = [&](int index) { return program_.members[index]; };
  const auto is_far = [&](Rank sender) {
    return member_of(program_.index_of(sender)) != member_of(receiver);
  };
  return travelling(program_.reg(program_.task(id).inputs[0]).type, program_.task(id).exchange,
                    program_.actors->pulls(id, receiver), program_.processes[receiver], is_far);
}

void RankProgram::plan_far(TaskId id, Pulling& pulling) const {
  const Task& task = program_.task(id);
  const TensorType& type = program_.reg(task.inputs[0]).type;
  const auto travelling = travelling_pulls(id, index_);
  auto far = std::make_unique<FarPulls>();
  for (size_t port = 0; port < pulling.senders.size(); ++port) {
    const int sender = pulling.senders[port];
    if (program_.is_here(sender)) continue;
    far->add_lane(port, program_.members[sender],
                  {program_.open->number(), program_.actors->actor_id(index_, id), sender,
                   program_.network->fetch().new_tags(2), 0});
  }
  const std::vector<Piece> mine = task.exchange.to.pieces(type.shape, *coordinates_[task.mesh]);
  size_t source = 0;  // of the next contribution that is staged
  for (size_t i = 0; i < travelling.pulls.size(); ++i) {
    const Pull& pull = travelling.pulls[i];
    const int sender = program_.index_of(pull.sender);
    const auto port =
        static_cast<size_t>(std::find(pulling.senders.begin(), pulling.senders.end(), sender) -
                            pulling.senders.begin());
    const Box& frame = piece_around(mine, pull.box).frame;
    const int64_t bytes = element_count(pull.box.shape()) * size_of(type.dtype);
    if (travelling.in_place[i]) {
      far->add_in_place(port, *dense_offset(pull.box, frame) * size_of(type.dtype), bytes);
      continue;
    }
    if (pull.first)
      pulling.boxes.emplace_back(type.dtype, pull.reduce, pull.box, frame),
          source = pulling.senders.size();
    ensure(!pulling.boxes.empty() && pulling.boxes.back().box() == pull.box,
           "the contributions to a box follow its first one");
    if (program_.is_here(sender)) {
      const std::vector<Piece> held = task.exchange.from.pieces(
          type.shape, *task.exchange.from.mesh->coordinate_of(pull.sender));
      pulling.boxes.back().add_source(port, piece_around(held, pull.box).frame);
    } else {
      far->add_staged(port, pulling.boxes.size() - 1, source, bytes);
      pulling.boxes.back().add_source(source++, pull.box);
      pulling.sources.resize(std::max(pulling.sources.size(), source));
    }
  }
  for (BoxCombine& box : pulling.boxes) box.join_dims();
  far->finish_plan(pulling.boxes.size());
  if (far->pulls_anything()) pulling.far = std::move(far);
}

/// What `receiver` gets of this rank in the exchange `id`, in the order in which it takes it.
std::vector<SentPiece> RankProgram::pieces_for(TaskId id, int receiver) const {
  const Task& task = program_.task(id);
  const TensorType& type = program_.reg(task.inputs[0]).type;
  const std::vector<Piece> held =
      task.exchange.from.pieces(type.shape, *task.exchange.from.mesh->coordinate_of(rank_));
  const auto travelling = travelling_pulls(id, receiver);
  std::vector<SentPiece> sent;
  for (size_t i = 0; i < travelling.pulls.size(); ++i) {
    const Pull& pull = travelling.pulls[i];
    if (pull.sender != rank_) continue;
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

void RankProgram::plan_answers() {
  if (!program_.network) return;
  for (TaskId id : program_.graph->tasks.indices()) {
    if (program_.task(id).kind != Task::Kind::kExchange) continue;
    for (int receiver = 0; receiver < program_.actors->rank_count(); ++receiver)
      if (!program_.is_here(receiver) && program_.actors->pulls_from(id, receiver, index_))
        answers_[program_.actors->actor_id(receiver, id)] = {pieces_for(id, receiver),
                                                             program_.task(id).inputs[0]};
  }
}

void RankProgram::note_filled(const Message& ready) {
  answers_.at(ready.to).filled = ready.iteration + 1;
}

std::optional<ProgramPort::Answer> RankProgram::answer(const FetchRequest& request) const {
  const Sent& sent = answers_.at(request.exchange);
  if (request.record >= sent.filled) return std::nullopt;
  const auto slot = static_cast<int>(
      request.record % program_.reg(sent.from).slots);  // records go around (actors/actor.h)
  return ProgramPort::Answer{&sent.pieces, slot_data(sent.from, slot)};
}

std::pair<int, Bytes> RankProgram::packing() const {
  std::map<int, int> answers;  // by receiver: that of its turn, and those ahead
  Bytes largest{0};
  for (const auto& [exchange, sent] : answers_) {
    const bool is_packed = std::any_of(sent.pieces.begin(), sent.pieces.end(),
                                       [](const SentPiece& piece) { return piece.pack; });
    if (!is_packed) continue;
    for (const SentPiece& piece : sent.pieces)
      if (piece.pack) largest = std::max(largest, Bytes(piece.bytes));
    int& count = answers[program_.actors->rank_index_of(exchange)];
    const bool may_be_ahead = !program_.task(program_.actors->task_of(exchange)).after.is_none();
    count = std::max(count, 1);
    if (may_be_ahead) count = std::min(count + 1, 1 + kMostAskedAhead);
  }
  int sum = 0;
  for (const auto& [receiver, count] : answers) sum += count;
  return {sum, largest};
}

/// returns  false when the run stops
bool RankProgram::combine_far(const Task& task, Plan& plan, std::byte* target,
                              const StepCall& call) {
  FarPulls& far = *plan.pulling.far;
  Pulling& pulling = plan.pulling;
  far.ask_for(plan.actor.act().iteration, *program_.network, target, staging_.data());
  return await(
      task, call, "bytes of ranks of other processes", [&far] { return far.has_news(); },
      [&far, &pulling] {
        far.go_on(pulling.boxes, pulling.sources);
        return far.is_over();
      });
}

/// In the middle of an act, what is ahead goes on meanwhile.
///   has_news  would `go_on` do something, or say that it is over?
///   go_on     does what can be done, and says whether it is over
///   returns   false when the run stops
bool RankProgram::await(const Task& task, const StepCall& call, std::string_view what,
                        const std::function<bool()>& has_news, const std::function<bool()>& go_on) {
  const auto end = deadline();
  const int place = place_.load(std::memory_order_relaxed);
  while (!go_on()) {
    receive_messages();
    if (go_ahead(place, call)) continue;
    const bool in_time = program_.network->channel().wait_until(
        [this, &has_news] { return has_news() || mailbox_->has_messages() || has_news_ahead(); },
        end);
    if (program_.stop->stopped()) return false;
    if (!in_time)
      throw InternalError("waited " + to_text(program_.options.deadline) + ": '" + task.name +
                          "' for " + std::string(what));
  }
  return true;
}

/// returns  false at the end
bool RankProgram::wait_for_message(std::chrono::steady_clock::time_point end) const {
  if (!program_.network) return mailbox_->wait(*program_.stop, program_.spin_policy, end);
  return program_.network->channel().wait_until(
             [this] { return mailbox_->has_messages() || has_news_ahead(); }, end) ||
         program_.stop->stopped();
}

}  // namespace tessera
