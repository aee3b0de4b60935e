// Text in, batches out. This room knows files, tokens, samples and batches; it knows no mesh: it is told how many data-parallel parts
// there are and which rows are wanted. It makes no threads: loading ahead of the step is engine/loader.
//
//   text_files    files and folders to text
//   vocabulary    text to tokens
//   sampler       which sample stands in which row of which step
//   text_dataset  tokens and a sampler to the rows of a batch
#pragma once

#include "data/sampler.h"
#include "data/text_dataset.h"
#include "data/text_files.h"
#include "data/vocabulary.h"
