-- Every agent that was ever watched.
SELECT patient FROM patients
