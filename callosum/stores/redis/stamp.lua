-- Store the stamp of a copy. KEYS[1]: its key. ARGV: the stamp.
redis.call('SET', KEYS[1], ARGV[1])
return 1
