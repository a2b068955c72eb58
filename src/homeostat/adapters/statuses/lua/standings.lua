-- How agents stand, in the order asked; false for those that are not held.
local answers = {}
for index, id in ipairs(ARGV) do
    local known = redis.call(
        'HMGET', 'agent:presence:' .. id, 'presence', 'since_ms', 'received_ms', 'counted_ms', 'interval_ms', 'last'
    )
    answers[index] = known[1] and {
        known[1], tonumber(known[2]), tonumber(known[3]), tonumber(known[4]), tonumber(known[5]), known[6]
    }
end
return cmsgpack.pack(answers)
