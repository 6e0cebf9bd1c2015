"""Commands that look for what is wrong with the compiler: fuzz, bisect, reduce."""
