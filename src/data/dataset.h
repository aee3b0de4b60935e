// Files or seeds in, batches out. This room knows files, samples and batches; it knows no mesh: it
// is told how many data-parallel parts there are and which rows are wanted. It makes no threads:
// loading ahead of the step is engine/loader.
//
//   text_files    files and folders to text
//   vocabulary    text to tokens
//   sampler       which sample stands in which row of which step
//   batch         what every kind of samples looks like: named tensors; a sampler's rows of them
//   are a batch text_dataset  tokens to samples of a language model
#pragma once

#include "data/array_files.h"
#include "data/batch.h"
#include "data/drawings.h"
#include "data/markov.h"
#include "data/sampler.h"
#include "data/text_dataset.h"
#include "data/text_files.h"
#include "data/vocabulary.h"
