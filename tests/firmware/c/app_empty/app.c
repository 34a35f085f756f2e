/* The least app: it leaves everything out. */
#include "net/node.h"
