#include "runtime/executor/internal/program_ranks.h"

namespace tessera {

void ProgramRanks::fail(const Failure& failure) {
  context_.network ? context_.network->fail(failure) : context_.stop->fail(failure);
  wake();
}

void ProgramRanks::wake() const {
  for (const auto& endpoint : endpoints_)
    if (endpoint) endpoint->mailbox->wake();
  for (const ProgramRanks* region : regions_) region->wake();
}

void ProgramRanks::take(const Message& message) {
  find(context_.actors->rank_index_of(message.to))->mailbox->push(message);
}

void ProgramRanks::note_filled(const Message& ready) {
  find(context_.actors->rank_index_of(ready.from))->answers.note_filled(ready);
}

std::optional<ProgramPort::Answer> ProgramRanks::answer(const FetchRequest& request) {
  return find(request.sender)->answers.answer(request);
}

}  // namespace tessera
